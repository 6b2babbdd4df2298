#ifndef TESTS_CUDA_ON_CPU_FIBERS_H_
#define TESTS_CUDA_ON_CPU_FIBERS_H_

#include <boost/context/fiber.hpp>
#include <functional>
#include <memory>
#include <vector>

namespace cuda_on_cpu {

// A stack that code can be left on and returned to.
struct Fiber {
  boost::context::fiber context;
  int thread = -1;  // of the block, that runs on it
};

// The fibers of one thread of the operating system. Making a stack costs thousands of switches, so
// they are kept. Each has a guard page below it. Not thread-safe.
class FiberPool {
 public:
  // `loop` is what every fiber runs, again and again; it leaves by Switch only.
  explicit FiberPool(std::function<void(Fiber*)> loop) : loop_(std::move(loop)) {}

  // A fiber that nobody runs on. When it is switched to, its loop starts or goes on.
  Fiber* Take();
  void Return(Fiber* fiber) { free_.push_back(fiber); }

  // Goes on where `to` was left; returns when somebody switches back to `from`.
  void Switch(Fiber* from, Fiber* to) {
    leaving_ = from;
    boost::context::fiber left = std::move(to->context).resume();
    leaving_->context = std::move(left);
  }

 private:
  std::function<void(Fiber*)> loop_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
  Fiber* leaving_ = nullptr;
};

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_FIBERS_H_
