#include "tests/cuda_on_cpu/faults.h"

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/cuda_on_cpu/memory.h"
#include "tests/cuda_on_cpu/report.h"

namespace cuda_on_cpu {
namespace {

constexpr size_t kSignalStackBytes = size_t{64} << 10;

struct sigaction before_segv;
struct sigaction before_bus;

void Write(const char* text) {
  // There is nobody to tell when this fails.
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

void HandleFault(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  char where[256] = "outside all device memory";
  const bool known = DeviceMemory::Get().Describe(address, where, sizeof where);
  if (!known && running_operation == nullptr) {
    const struct sigaction& before = signal == SIGSEGV ? before_segv : before_bus;
    if ((before.sa_flags & SA_SIGINFO) != 0) {
      before.sa_sigaction(signal, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
      before.sa_handler(signal);
    }
    sigaction(signal, &before, nullptr);
    return;
  }
  char place[256];
  DescribePlace(place, sizeof place);
  char message[1024];
  std::snprintf(message, sizeof message, "CUDA on CPU: access to %p, %s%s\n", info->si_addr, where,
                place);
  Write(message);
  std::abort();
}

}  // namespace

void InstallFaultHandler() {
  struct sigaction action = {};
  action.sa_sigaction = HandleFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &before_segv);
  sigaction(SIGBUS, &action, &before_bus);
}

void UseOwnSignalStack() {
  struct Stack {
    std::vector<char> bytes = std::vector<char>(kSignalStackBytes);
    Stack() {
      stack_t stack = {};
      stack.ss_sp = bytes.data();
      stack.ss_size = bytes.size();
      sigaltstack(&stack, nullptr);
    }
    ~Stack() {
      stack_t none = {};
      none.ss_flags = SS_DISABLE;
      sigaltstack(&none, nullptr);
    }
  };
  static thread_local const Stack kStack;
}

}  // namespace cuda_on_cpu
