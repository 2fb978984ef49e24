#ifndef QUIRE_SERVER_DELIVERY_H_
#define QUIRE_SERVER_DELIVERY_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace quire {

class Generation;

// Who makes responses of what the engine has told? Delivery collects the generations that heard
// something in a step; when the step is told, they go to a thread of its own together, which pumps
// them in the order in which they heard. However many they are, the engine wakes one thread at
// most, and only where it sleeps.
//
// It decides nothing about streams. A generation does not come again before it is pumped.
//
// Threads: Collect and HandOver are the engine's; Stop anyone's, when the engine has ended. Up to
// as many generations as it was made for it does not allocate.
class Delivery {
 public:
  explicit Delivery(int num_generations);
  // As Stop.
  ~Delivery();
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  // Pumps it after the next HandOver.
  void Collect(std::shared_ptr<Generation> generation);
  void HandOver();
  // Pumps all that was handed over, then joins.
  void Stop();

 private:
  void Deliver(int num_generations);

  // Engine thread.
  std::vector<std::shared_ptr<Generation>> collected_;

  std::mutex mu_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<Generation>> handed_over_;  // guarded by mu_
  bool sleeps_ = false;                                   // likewise; false from the wake on
  bool stopped_ = false;                                  // likewise

  std::thread thread_;
};

}  // namespace quire

#endif  // QUIRE_SERVER_DELIVERY_H_
