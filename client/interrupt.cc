#include "client/interrupt.h"

#include <atomic>
#include <csignal>
#include <initializer_list>

namespace sangam {
namespace {

// A signal handler can reach nothing but a global.
std::atomic<int> interrupts{0};
std::atomic<int> first_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "must be safe in a signal handler");

void Count(int signal) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal, std::memory_order_relaxed);
  interrupts.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

void CatchInterrupts() {
  struct sigaction action {};
  action.sa_handler = Count;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
  // Who started us may have ignored it; then the ends of our own children would be lost.
  action.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &action, nullptr);
}

int Interrupts() { return interrupts.load(std::memory_order_relaxed); }

int FirstInterrupt() { return first_signal.load(std::memory_order_relaxed); }

}  // namespace sangam
