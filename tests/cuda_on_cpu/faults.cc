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
struct sigaction before_ill;

void Write(const char* text) {
  // There is nobody to tell when this fails.
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

const struct sigaction& Before(int signal) {
  return signal == SIGSEGV ? before_segv : signal == SIGBUS ? before_bus : before_ill;
}

// To whom it would have gone.
void PassOn(int signal, siginfo_t* info, void* context) {
  const struct sigaction& before = Before(signal);
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  }
  sigaction(signal, &before, nullptr);
}

// What is built for the stand-in (cuda.bzl) looks at each address before it uses it: a device
// refuses to load a float4 from any but a multiple of 16 bytes, a processor does not.
void HandleTrap(int signal, siginfo_t* info, void* context) {
  if (running_operation == nullptr) return PassOn(signal, info, context);
  char place[256];
  DescribePlace(place, sizeof place);
  char message[512];
  std::snprintf(message, sizeof message,
                "CUDA on CPU: access to an address that is no multiple of the type's alignment%s\n",
                place);
  Write(message);
  std::abort();
}

void HandleFault(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  char where[256] = "outside all device memory";
  const bool known = DeviceMemory::Get().Describe(address, where, sizeof where);
  if (!known && running_operation == nullptr) {
    PassOn(signal, info, context);
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
  action.sa_sigaction = HandleTrap;
  sigaction(SIGILL, &action, &before_ill);
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
