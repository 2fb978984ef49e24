// A client that is silent for a while, as grpc-go's users are: with keepalive on, once with a
// silent stream and once with no call at all. It says what it saw; tests/e2e/keepalive_test.py
// judges. Debian's grpc-go, in GOPATH mode.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

func fail(what string, err error) {
	fmt.Printf("%s: %v\n", what, err)
	os.Exit(1)
}

func main() {
	if len(os.Args) != 4 {
		fail("usage", fmt.Errorf("go_keepalive ADDRESS stream|idle SILENCE"))
	}
	address, kind := os.Args[1], os.Args[2]
	silence, err := time.ParseDuration(os.Args[3])
	if err != nil {
		fail("SILENCE", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), silence+2*time.Minute)
	defer cancel()
	// 10 s is the shortest that grpc-go takes.
	connection, err := grpc.DialContext(ctx, address, grpc.WithInsecure(), grpc.WithBlock(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 10 * time.Second, Timeout: 20 * time.Second, PermitWithoutStream: true}))
	if err != nil {
		fail("dial", err)
	}
	client := health.NewHealthClient(connection)
	if _, err := client.Check(ctx, &health.HealthCheckRequest{}); err != nil {
		fail("before the silence", err)
	}
	if kind == "stream" {
		stream, err := client.Watch(ctx, &health.HealthCheckRequest{})
		if err != nil {
			fail("watch", err)
		}
		if _, err := stream.Recv(); err != nil {
			fail("first of the watch", err)
		}
		go func() {
			_, err := stream.Recv()
			fail("the watch did not stay silent", err)
		}()
	}
	quiet, stop := context.WithTimeout(ctx, silence)
	defer stop()
	if connection.WaitForStateChange(quiet, connectivity.Ready) {
		fail("the connection left READY", fmt.Errorf("it is %v", connection.GetState()))
	}
	if _, err := client.Check(ctx, &health.HealthCheckRequest{}); err != nil {
		fail("after the silence", err)
	}
	fmt.Println("served again")
}
