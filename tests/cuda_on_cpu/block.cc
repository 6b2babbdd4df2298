#include "tests/cuda_on_cpu/block.h"

#include <cstring>
#include <memory>

#include "tests/cuda_on_cpu/garbage.h"
#include "tests/cuda_on_cpu/report.h"

__thread uint3 threadIdx;
__thread uint3 blockIdx;
__thread uint3 blockDim;
__thread uint3 gridDim;

namespace cuda_on_cpu {
namespace {

bool SameSite(Site a, Site b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

const char* Name(BarrierKind kind) {
  switch (kind) {
    case BarrierKind::kPlain:
      return "__syncthreads";
    case BarrierKind::kCount:
      return "__syncthreads_count";
    case BarrierKind::kAnd:
      return "__syncthreads_and";
    case BarrierKind::kOr:
      return "__syncthreads_or";
  }
  return "?";
}

const char* Name(WarpKind kind) {
  switch (kind) {
    case WarpKind::kSync:
      return "__syncwarp";
    case WarpKind::kShuffle:
      return "__shfl_sync";
    case WarpKind::kShuffleUp:
      return "__shfl_up_sync";
    case WarpKind::kShuffleDown:
      return "__shfl_down_sync";
    case WarpKind::kShuffleXor:
      return "__shfl_xor_sync";
    case WarpKind::kBallot:
      return "a vote";
  }
  return "?";
}

// The lane that `lane` reads from, or itself where the source is outside its group.
int SourceLane(const WarpCall& call, int lane) {
  const int base = lane & ~(call.width - 1);
  const int end = base + call.width;
  int source = lane;
  switch (call.kind) {
    case WarpKind::kShuffle:
      return base + (call.lane & (call.width - 1));
    case WarpKind::kShuffleUp:
      source = lane - call.lane;
      return source < base ? lane : source;
    case WarpKind::kShuffleDown:
      source = lane + call.lane;
      return source >= end ? lane : source;
    case WarpKind::kShuffleXor:
      source = lane ^ call.lane;
      return source >= end ? lane : source;
    case WarpKind::kSync:
    case WarpKind::kBallot:
      break;
  }
  return lane;
}

}  // namespace

int BlockBarrier(BarrierKind kind, int predicate, Site site) {
  return BlockRunner::Current().WaitForBlock(kind, predicate, site);
}

uint64_t WarpExchange(const WarpCall& call) { return BlockRunner::Current().WaitForWarp(call); }

BlockRunner::BlockRunner() : pool_([this](Fiber* fiber) { Loop(fiber); }) {}

BlockRunner& BlockRunner::Current() {
  // Beside the pointer, because a variable with a destructor is slower to reach.
  static __thread BlockRunner* current = nullptr;
  if (current == nullptr) {
    static thread_local const std::unique_ptr<BlockRunner> kRunner =
        std::make_unique<BlockRunner>();
    current = kRunner.get();
  }
  return *current;
}

void BlockRunner::SetDimensions(uint3 dimensions) {
  if (std::memcmp(&dimensions, &dimensions_, sizeof dimensions) == 0) return;
  dimensions_ = dimensions;
  int thread = 0;
  for (unsigned z = 0; z < dimensions.z; ++z) {
    for (unsigned y = 0; y < dimensions.y; ++y) {
      for (unsigned x = 0; x < dimensions.x; ++x) index_[thread++] = {x, y, z};
    }
  }
}

void BlockRunner::Run(uint3 dimensions, const std::vector<int>& order,
                      const std::function<void()>& body) {
  SetDimensions(dimensions);
  body_ = &body;
  order_ = &order;
  num_threads_ = static_cast<int>(order.size());
  num_done_ = 0;
  num_at_barrier_ = 0;
  std::memset(state_, static_cast<int>(State::kNew), order.size());
  for (int warp = 0; warp * kWarpThreads < num_threads_; ++warp) {
    const int lanes = num_threads_ - warp * kWarpThreads;
    arrived_[warp] = 0;
    alive_[warp] = lanes >= kWarpThreads ? ~0u : (1u << lanes) - 1;
  }
  position_ = 0;
  Fiber* fiber = pool_.Take();
  fiber->thread = order[0];
  pool_.Switch(&main_, fiber);
}

void BlockRunner::Enter(int thread) {
  current_ = thread;
  threadIdx = index_[thread];
}

// What a fiber does: runs its thread, then new ones as long as there are some, then goes back to
// the pool.
void BlockRunner::Loop(Fiber* fiber) {
  for (;;) {
    const int thread = fiber->thread;
    fiber_[thread] = fiber;
    Enter(thread);
    (*body_)();
    state_[thread] = State::kDone;
    alive_[thread / kWarpThreads] &= ~(1u << (thread % kWarpThreads));
    ++num_done_;
    const int next = num_done_ == num_threads_ ? -1 : Next();
    if (next >= 0 && state_[next] == State::kNew) {
      fiber->thread = next;
      continue;
    }
    pool_.Return(fiber);
    pool_.Switch(fiber, next < 0 ? &main_ : fiber_[next]);
  }
}

// Lets the other threads run until this one is ready again.
void BlockRunner::WaitHere(int thread) {
  const int next = Next();
  if (next != thread) {
    Fiber* to;
    if (state_[next] == State::kNew) {
      to = pool_.Take();
      to->thread = next;
    } else {
      to = fiber_[next];
    }
    pool_.Switch(fiber_[thread], to);
  }
  Enter(thread);
}

// The thread to run now: the first one in turn that need not wait.
int BlockRunner::Next() {
  const int* order = order_->data();
  for (int step = 1; step <= num_threads_; ++step) {
    int position = position_ + step;
    if (position >= num_threads_) position -= num_threads_;
    const State state = state_[order[position]];
    if (state == State::kNew || state == State::kReady) {
      position_ = position;
      return order[position];
    }
  }
  return FirstAfterRelease();
}

int BlockRunner::FirstAfterRelease() {
  if (num_at_barrier_ == num_threads_) {
    ReleaseBarrier();
    position_ = 0;
    return (*order_)[0];
  }
  // A thread that ended may have been the last one that its warp waited for.
  if (CompleteAnyWarp()) return Next();
  ReportStuck();
}

int BlockRunner::WaitForBlock(BarrierKind kind, int predicate, Site site) {
  const int thread = current_;
  barrier_[thread] = {kind, predicate, site};
  state_[thread] = State::kAtBarrier;
  ++num_at_barrier_;
  WaitHere(thread);
  return barrier_result_;
}

void BlockRunner::ReleaseBarrier() {
  const Barrier& first = barrier_[0];
  int count = 0;
  for (int thread = 0; thread < num_threads_; ++thread) {
    const Barrier& own = barrier_[thread];
    if (own.kind != first.kind || !SameSite(own.site, first.site)) {
      Enter(thread);
      Fail(
          "barrier in a divergent branch: thread 0 of the block waits at %s, %s:%d, thread %d at "
          "%s, %s:%d",
          Name(first.kind), first.site.file, first.site.line, thread, Name(own.kind), own.site.file,
          own.site.line);
    }
    count += own.predicate != 0;
    state_[thread] = State::kReady;
  }
  num_at_barrier_ = 0;
  switch (first.kind) {
    case BarrierKind::kPlain:
      break;
    case BarrierKind::kCount:
      barrier_result_ = count;
      break;
    case BarrierKind::kAnd:
      barrier_result_ = count == num_threads_;
      break;
    case BarrierKind::kOr:
      barrier_result_ = count != 0;
      break;
  }
}

uint64_t BlockRunner::WaitForWarp(const WarpCall& call) {
  const int thread = current_;
  const int lane = thread % kWarpThreads;
  if ((call.mask >> lane & 1u) == 0) {
    Fail("%s at %s:%d: the mask 0x%08x does not name the calling lane %d", Name(call.kind),
         call.site.file, call.site.line, call.mask, lane);
  }
  if (call.width < 1 || call.width > kWarpThreads || (call.width & (call.width - 1)) != 0) {
    Fail("%s at %s:%d: found width %d, expected a power of two up to 32", Name(call.kind),
         call.site.file, call.site.line, call.width);
  }
  call_[thread] = call;
  state_[thread] = State::kAtWarp;
  arrived_[thread / kWarpThreads] |= 1u << lane;
  if (!CompleteWarp(thread)) WaitHere(thread);
  return warp_result_[thread];
}

// Lanes that are named but ended are not waited for, as on a device; what they would have said is
// garbage.
bool BlockRunner::CompleteWarp(int thread) {
  const int warp = thread / kWarpThreads;
  const int first = warp * kWarpThreads;
  const WarpCall& call = call_[thread];
  const unsigned lanes = call.mask & alive_[warp];
  if ((lanes & ~arrived_[warp]) != 0) return false;
  CheckWarpCalls(thread, lanes);
  unsigned votes = 0;
  for (unsigned left = lanes; left != 0; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    const WarpCall& own = call_[first + lane];
    // One that waits for others, which this call does not name.
    if (own.mask != call.mask) return false;
    votes |= static_cast<unsigned>(own.value & 1u) << lane;
  }
  for (unsigned left = lanes; left != 0; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    const int source = SourceLane(call_[first + lane], lane);
    warp_result_[first + lane] = call.kind == WarpKind::kBallot ? votes
                                 : (lanes >> source & 1u) != 0  ? call_[first + source].value
                                                                : kGarbage64;
    state_[first + lane] = State::kReady;
  }
  arrived_[warp] &= ~lanes;
  return true;
}

// Two threads that name each other must make the same call.
void BlockRunner::CheckWarpCalls(int thread, unsigned lanes) {
  const WarpCall& call = call_[thread];
  const int first = thread / kWarpThreads * kWarpThreads;
  const int lane = thread % kWarpThreads;
  for (unsigned left = lanes; left != 0; left &= left - 1) {
    const int other = __builtin_ctz(left);
    const WarpCall& theirs = call_[first + other];
    if ((theirs.mask >> lane & 1u) == 0) continue;
    if (theirs.mask == call.mask && theirs.kind == call.kind && SameSite(theirs.site, call.site)) {
      continue;
    }
    Fail(
        "mismatch in a warp: lane %d waits at %s with mask 0x%08x, %s:%d, lane %d at %s with mask "
        "0x%08x, %s:%d",
        other, Name(theirs.kind), theirs.mask, theirs.site.file, theirs.site.line, lane,
        Name(call.kind), call.mask, call.site.file, call.site.line);
  }
}

bool BlockRunner::CompleteAnyWarp() {
  for (int thread = 0; thread < num_threads_; ++thread) {
    if (state_[thread] == State::kAtWarp && CompleteWarp(thread)) return true;
  }
  return false;
}

void BlockRunner::ReportStuck() {
  for (int thread = 0; thread < num_threads_; ++thread) {
    if (state_[thread] != State::kAtWarp) continue;
    Enter(thread);
    CheckWarpCalls(thread, call_[thread].mask & arrived_[thread / kWarpThreads]);
  }
  int waiting = -1, elsewhere = -1;
  const State kind = num_at_barrier_ > 0 ? State::kAtBarrier : State::kAtWarp;
  for (int thread = num_threads_ - 1; thread >= 0; --thread) {
    if (state_[thread] == kind) {
      waiting = thread;
    } else if (kind == State::kAtBarrier || state_[thread] == State::kDone) {
      elsewhere = thread;
    }
  }
  Enter(waiting);
  if (kind == State::kAtBarrier) {
    const Barrier& at = barrier_[waiting];
    Fail(
        "barrier that not all threads reach: thread %d of the block waits at %s, %s:%d, but "
        "thread %d %s",
        waiting, Name(at.kind), at.site.file, at.site.line, elsewhere,
        state_[elsewhere] == State::kDone ? "has ended" : "waits for its warp");
  }
  const WarpCall& at = call_[waiting];
  Fail(
      "a warp that waits for ever: lane %d at %s with mask 0x%08x, %s:%d; lanes 0x%08x wait, lanes "
      "0x%08x have not ended",
      waiting % kWarpThreads, Name(at.kind), at.mask, at.site.file, at.site.line,
      arrived_[waiting / kWarpThreads], alive_[waiting / kWarpThreads]);
}

}  // namespace cuda_on_cpu
