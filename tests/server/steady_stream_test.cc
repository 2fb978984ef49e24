// What a step asks of the engine's thread while it only feeds streams: the real loop and the real
// core, between a device without arithmetic and a transport that is a thread of the test.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "server/server_core.h"
#include "tests/testing/fake_backend.h"
#include "tests/testing/thread_counts.h"
#include "tests/testing/tiny_engine.h"

namespace quire {
namespace {

// The transport of all streams: answers each write from a thread of its own, as gRPC does.
class Network {
 public:
  Network() : thread_([this] { Run(); }) {}
  ~Network() { Stop(); }
  void Stop() {
    {
      std::lock_guard<std::mutex> lock(mu_);
      stopped_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  void Write(Generation* generation, const v1::GenerateResponse& response) {
    std::lock_guard<std::mutex> lock(mu_);
    num_tokens_ += response.delta().token_ids_size();
    written_.push_back(generation);
    changed_.notify_all();
  }
  void End() {
    std::lock_guard<std::mutex> lock(mu_);
    ++num_ended_;
    changed_.notify_all();
  }
  void WaitForTokens(int count) {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [&] { return num_tokens_ >= count || stopped_; });
  }
  bool WaitForEnds(int count) {
    std::unique_lock<std::mutex> lock(mu_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return num_ended_ == count; });
  }

 private:
  void Run() {
    std::unique_lock<std::mutex> lock(mu_);
    for (;;) {
      changed_.wait(lock, [this] { return !written_.empty() || stopped_; });
      if (stopped_) return;
      Generation* const generation = written_.front();
      written_.pop_front();
      lock.unlock();
      generation->OnWritten(true);
      lock.lock();
    }
  }

  std::mutex mu_;
  std::condition_variable changed_;
  // Guarded by mu_.
  std::deque<Generation*> written_;
  int num_tokens_ = 0;
  int num_ended_ = 0;
  bool stopped_ = false;

  std::thread thread_;
};

class StreamWriter : public GenerationWriter {
 public:
  explicit StreamWriter(Network* network) : network_(network) {}
  void Write(const v1::GenerateResponse& response) override {
    network_->Write(generation, response);
  }
  void WriteLast(const v1::GenerateResponse&) override { network_->End(); }
  void Finish(const absl::Status& status) override {
    ADD_FAILURE() << status;
    network_->End();
  }
  void Cancel() override {}

  Generation* generation = nullptr;  // set before it is prepared

 private:
  Network* const network_;
};

// On the engine thread, once in each step: waits until all tokens of the steps before are written,
// so that streams are as far as they would be beside a real device, and adds up what the engine
// thread did in a turn of its loop that began and ended with all streams.
class Meter {
 public:
  Meter(Network* network, int num_streams) : network_(network), num_streams_(num_streams) {}

  void OnStep(const HostStep& step) {
    const ThreadCounts turn = CountsOfThisThread() - last_;
    network_->WaitForTokens(num_drawn_);
    num_drawn_ += step.shape.num_samples;
    const bool is_steady = step.shape.num_tokens == num_streams_;
    if (is_steady && num_steady_in_a_row_ >= kWarmUp) {
      ++num_turns;
      num_allocations += turn.num_allocations;
      num_wakes += turn.num_wakes;
      most_wakes = std::max(most_wakes, turn.num_wakes);
    }
    num_steady_in_a_row_ = is_steady ? num_steady_in_a_row_ + 1 : 0;
    last_ = CountsOfThisThread();
  }

  // Read when all streams have ended.
  int num_turns = 0;
  int64_t num_allocations = 0;
  int64_t num_wakes = 0;
  int64_t most_wakes = 0;  // of a turn

 private:
  static constexpr int kWarmUp = 8;  // inboxes of streams have grown by then

  Network* const network_;
  const int num_streams_;
  int num_drawn_ = 0;
  int num_steady_in_a_row_ = 0;
  ThreadCounts last_;
};

class SteadyStreamTest : public testing::TestWithParam<int> {};

TEST_P(SteadyStreamTest, TheEngineAllocatesNothingAndWakesDeliveryOnceHoweverManyStreams) {
  const int num_streams = GetParam();
  constexpr int kMaxTokens = 90;
  Network network;
  Meter meter(&network, num_streams);
  std::vector<std::unique_ptr<StreamWriter>> writers;
  ServerCore core{ServerConfig()};
  std::vector<std::shared_ptr<Generation>> generations;
  core.Serve(
      MakeTinyEngine(std::make_unique<FakeBackend>([&](const HostStep& step, FakeBackend::Answer*) {
                       meter.OnStep(step);
                       return absl::OkStatus();
                     }),
                     {.num_blocks = 8 * num_streams}),
      nullptr);
  const ServingModel& model = **core.ModelForCall();
  for (int i = 0; i < num_streams; ++i) {
    writers.push_back(std::make_unique<StreamWriter>(&network));
    v1::GenerateRequest request;
    for (int j = 0; j < 5 + 3 * i; ++j) request.mutable_token_ids()->add_ids(1 + i);
    request.mutable_params()->set_max_tokens(kMaxTokens);
    request.mutable_params()->set_ignore_eos(true);
    const CallOrigin origin = {.request_id = core.MakeRequestId(), .peer = "test"};
    generations.push_back(*core.AddGeneration(origin, request, *core.admission().Enter(0, origin),
                                              kNever, model, writers.back().get()));
    writers.back()->generation = generations.back().get();
  }
  for (const auto& generation : generations) generation->Prepare();
  EXPECT_TRUE(network.WaitForEnds(num_streams));
  network.Stop();
  for (const auto& generation : generations) core.OnClosed(generation);
  core.Close();
  EXPECT_GT(meter.num_turns, kMaxTokens / 2);
  if (!CanCountThreads()) GTEST_SKIP() << "not counted: a sanitizer has replaced malloc";
  EXPECT_EQ(meter.num_allocations, 0);
  EXPECT_LE(meter.most_wakes, 1);
  EXPECT_GT(meter.num_wakes, 0) << "or wakes are not counted";
}

INSTANTIATE_TEST_SUITE_P(Streams, SteadyStreamTest, testing::Values(1, 8));

}  // namespace
}  // namespace quire
