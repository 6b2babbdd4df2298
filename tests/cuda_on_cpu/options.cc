#include "tests/cuda_on_cpu/options.h"

#include <cstddef>
#include <cstdlib>
#include <string>

#include "tests/cuda_on_cpu/report.h"

namespace cuda_on_cpu {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The N of "random:N".
uint64_t Seed(const std::string& value) {
  return std::strtoull(value.c_str() + std::string("random:").size(), nullptr, 10);
}

bool IsRandom(const std::string& value) { return value.rfind("random:", 0) == 0; }

void ReadOrder(Options* options) {
  const std::string order = Variable("CUDA_ON_CPU_ORDER");
  if (order == "reverse") {
    options->order = Order::kReverse;
  } else if (IsRandom(order)) {
    options->order = Order::kRandom;
    options->order_seed = Seed(order);
  } else if (!order.empty() && order != "forward") {
    Fail("CUDA_ON_CPU_ORDER: found '%s', expected forward, reverse or random:SEED", order.c_str());
  }
}

void ReadStreams(Options* options) {
  const std::string mode = Variable("CUDA_ON_CPU_STREAMS");
  if (mode == "eager") {
    options->streams = StreamMode::kEager;
  } else if (IsRandom(mode)) {
    options->streams = StreamMode::kRandom;
    options->streams_seed = Seed(mode);
  } else if (!mode.empty() && mode != "lazy") {
    Fail("CUDA_ON_CPU_STREAMS: found '%s', expected lazy, eager or random:SEED", mode.c_str());
  }
}

void ReadPageable(Options* options) {
  const std::string mode = Variable("CUDA_ON_CPU_PAGEABLE");
  if (mode == "late") {
    options->pageable = PageableMode::kLate;
  } else if (!mode.empty() && mode != "staged") {
    Fail("CUDA_ON_CPU_PAGEABLE: found '%s', expected staged or late", mode.c_str());
  }
}

void ReadDevice(Options* options) {
  const std::string device = Variable("CUDA_ON_CPU_DEVICE");
  if (!device.empty() && device != "given" && device != "chosen") {
    Fail("CUDA_ON_CPU_DEVICE: found '%s', expected given or chosen", device.c_str());
  }
  options->device_is_given = device != "chosen";
}

void ReadFailure(Options* options) {
  const std::string failure = Variable("CUDA_ON_CPU_FAIL");
  if (failure.empty()) return;
  const size_t colon = failure.rfind(':');
  if (colon == std::string::npos) {
    Fail("CUDA_ON_CPU_FAIL: found '%s', expected NAME:N", failure.c_str());
  }
  options->failing_kernel = failure.substr(0, colon);
  options->launches_to_failure = std::strtoll(failure.c_str() + colon + 1, nullptr, 10);
}

Options* ReadOptions() {
  auto* options = new Options;
  ReadOrder(options);
  ReadStreams(options);
  ReadPageable(options);
  ReadDevice(options);
  ReadFailure(options);
  const std::string memory = Variable("CUDA_ON_CPU_MEMORY");
  if (!memory.empty()) options->memory_bytes = std::strtoull(memory.c_str(), nullptr, 10);
  return options;
}

}  // namespace

Options& options() {
  static Options* const kOptions = ReadOptions();
  return *kOptions;
}

void SetOrder(Order order, uint64_t seed) {
  options().order = order;
  options().order_seed = seed;
}

void SetStreamMode(StreamMode mode, uint64_t seed) {
  options().streams = mode;
  options().streams_seed = seed;
}

void SetPageableMode(PageableMode mode) { options().pageable = mode; }

void SetDeviceIsGiven(bool given) { options().device_is_given = given; }

void SetDeviceMemory(size_t bytes) { options().memory_bytes = bytes; }

}  // namespace cuda_on_cpu
