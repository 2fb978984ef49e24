#include "server/delivery.h"

#include <iterator>
#include <pthread.h>
#include <utility>

#include "server/generation.h"

namespace quire {

Delivery::Delivery(int num_generations) {
  collected_.reserve(num_generations);
  handed_over_.reserve(num_generations);
  thread_ = std::thread([this, num_generations] { Deliver(num_generations); });
}

Delivery::~Delivery() { Stop(); }

void Delivery::Collect(std::shared_ptr<Generation> generation) {
  collected_.push_back(std::move(generation));
}

void Delivery::HandOver() {
  if (collected_.empty()) return;
  bool wake = false;
  {
    std::lock_guard<std::mutex> lock(mu_);
    handed_over_.insert(handed_over_.end(), std::make_move_iterator(collected_.begin()),
                        std::make_move_iterator(collected_.end()));
    wake = std::exchange(sleeps_, false);
  }
  collected_.clear();
  if (wake) wake_.notify_one();
}

void Delivery::Stop() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    stopped_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Delivery::Deliver(int num_generations) {
  pthread_setname_np(pthread_self(), "quire-delivery");
  std::vector<std::shared_ptr<Generation>> generations;
  generations.reserve(num_generations);
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(mu_);
      while (handed_over_.empty() && !stopped_) {
        sleeps_ = true;
        wake_.wait(lock);
      }
      sleeps_ = false;
      if (handed_over_.empty()) return;
      std::swap(generations, handed_over_);  // they take turns: both keep their memory
    }
    for (const std::shared_ptr<Generation>& generation : generations) generation->Pump();
    generations.clear();
  }
}

}  // namespace quire
