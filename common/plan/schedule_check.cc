#include "common/plan/schedule_check.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"

namespace sangam {
namespace {

// Of one plan; keeps the memory of a play within bounds.
constexpr uint64_t kMaxPasses = uint64_t{1} << 24;

constexpr double kNotYet = std::numeric_limits<double>::infinity();

std::string Name(const SchedulePlay& play, uint32_t rank, const Pass& pass) {
  return absl::StrCat("rank ", rank, ", pass ", ToString({pass}, play.chunks));
}

absl::Status CheckNumbers(const SchedulePlay& play) {
  const uint64_t stages = uint64_t{play.ranks} * play.chunks;
  if (stages == 0 || play.micro_batches == 0) {
    return absl::InvalidArgumentError(absl::StrCat("schedule: found ", play.ranks, " ranks, ",
                                                   play.chunks, " chunks, ", play.micro_batches,
                                                   " micro-batches, expected at least 1 of each"));
  }
  if (stages > kMaxPasses || stages * play.micro_batches > kMaxPasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule: found ", stages, " stages and ", play.micro_batches,
                     " micro-batches, expected at most ", kMaxPasses, " forward passes in all"));
  }
  if (play.passes.size() != play.ranks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule: found the passes of ", play.passes.size(), " ranks, expected ", play.ranks));
  }
  if (!play.times.empty() && play.times.size() != stages) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule: found times of ", play.times.size(), " stages, expected ", stages));
  }
  for (size_t s = 0; s < play.times.size(); ++s) {
    const StageTimes& times = play.times[s];
    for (const double time : {times.forward, times.backward_input, times.backward_weights,
                              times.forward_transfer, times.backward_transfer}) {
      if (!std::isfinite(time) || time < 0) {
        return absl::InvalidArgumentError(absl::StrCat("schedule: times of stage ", s, ": found ",
                                                       time, ", expected at least 0"));
      }
    }
  }
  for (const StageSkip& skip : play.skips) {
    if (skip.to_stage <= skip.from_stage || skip.to_stage >= stages) {
      return absl::InvalidArgumentError(absl::StrCat("schedule: found a skip from stage ",
                                                     skip.from_stage, " to ", skip.to_stage,
                                                     ", expected forward and below ", stages));
    }
  }
  return absl::OkStatus();
}

// What has been seen of one micro-batch on one chunk while a list is checked.
struct Seen {
  bool forward = false;
  bool input = false;
  bool weights = false;
};

absl::Status CheckPass(const SchedulePlay& play, uint32_t rank, const Pass& pass, Seen* seen) {
  const bool forward = pass.kind == PassKind::kForward;
  const bool input = pass.kind == PassKind::kBackward || pass.kind == PassKind::kBackwardInput;
  const bool weights = pass.kind == PassKind::kBackward || pass.kind == PassKind::kBackwardWeights;
  if ((forward && seen->forward) || (input && seen->input) || (weights && seen->weights)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Name(play, rank, pass), ": found twice, expected once"));
  }
  if (!forward && !seen->forward) {
    return absl::InvalidArgumentError(
        absl::StrCat(Name(play, rank, pass), ": found before its forward pass, expected after it"));
  }
  if (pass.kind == PassKind::kBackwardWeights && !seen->input) {
    return absl::InvalidArgumentError(absl::StrCat(
        Name(play, rank, pass), ": found before its backward pass of the input, expected after"));
  }
  seen->forward |= forward;
  seen->input |= input;
  seen->weights |= weights;
  return absl::OkStatus();
}

// Every pass once, a forward before its backward, backward in the order of micro-batches.
absl::Status CheckList(const SchedulePlay& play, uint32_t rank, bool forward_only) {
  std::vector<Seen> seen(size_t{play.chunks} * play.micro_batches);
  std::vector<uint32_t> inputs(play.chunks, 0);
  std::vector<uint32_t> weights(play.chunks, 0);
  for (const Pass& pass : play.passes[rank]) {
    if (pass.chunk >= play.chunks || pass.micro_batch >= play.micro_batches) {
      return absl::InvalidArgumentError(absl::StrCat(
          Name(play, rank, pass), ": found chunk ", pass.chunk, " and micro-batch ",
          pass.micro_batch, ", expected below ", play.chunks, " and ", play.micro_batches));
    }
    RETURN_IF_ERROR(CheckPass(play, rank, pass,
                              &seen[size_t{pass.chunk} * play.micro_batches + pass.micro_batch]));
    if (pass.kind == PassKind::kForward) continue;
    uint32_t& next =
        pass.kind == PassKind::kBackwardWeights ? weights[pass.chunk] : inputs[pass.chunk];
    const uint32_t behind =
        pass.kind == PassKind::kBackward ? std::max(inputs[pass.chunk], weights[pass.chunk]) : next;
    if (pass.micro_batch != behind) {
      return absl::InvalidArgumentError(absl::StrCat(
          Name(play, rank, pass), ": found out of order, expected micro-batch ", behind));
    }
    next = pass.micro_batch + 1;
    if (pass.kind == PassKind::kBackward) weights[pass.chunk] = next;
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    Pass missing;
    missing.chunk = static_cast<uint32_t>(i / play.micro_batches);
    missing.micro_batch = static_cast<uint32_t>(i % play.micro_batches);
    if (!seen[i].forward) {
      missing.kind = PassKind::kForward;
    } else if (!forward_only && !seen[i].input) {
      missing.kind = PassKind::kBackward;
    } else if (!forward_only && !seen[i].weights) {
      missing.kind = PassKind::kBackwardWeights;
    } else {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(Name(play, rank, missing), ": found nowhere, expected once"));
  }
  return absl::OkStatus();
}

absl::Status Check(const SchedulePlay& play) {
  RETURN_IF_ERROR(CheckNumbers(play));
  // All lists have backward passes or none has: else somebody sends gradients that nobody takes.
  bool forward_only = true;
  for (const std::vector<Pass>& passes : play.passes) {
    forward_only = forward_only && std::all_of(passes.begin(), passes.end(), [](const Pass& pass) {
                     return pass.kind == PassKind::kForward;
                   });
  }
  for (uint32_t rank = 0; rank < play.ranks; ++rank) {
    RETURN_IF_ERROR(CheckList(play, rank, forward_only));
  }
  return absl::OkStatus();
}

// One boundary in one direction.
struct Channel {
  uint32_t from_rank = 0;
  uint32_t to_rank = 0;
  uint32_t from_stage = 0;  // of the sender
  uint32_t to_stage = 0;
  double transfer = 0;
  // When each tensor was sent and taken, in that order: a worker's times never go back, so the k-th
  // send has room when `credits` tensors fewer have been taken.
  std::vector<double> sent;
  std::vector<double> taken;
  std::vector<double> arrival;  // by micro-batch; kNotYet
};

// Channels that a pass of one stage takes from and sends to, in order.
struct Ends {
  std::vector<uint32_t> takes;
  std::vector<uint32_t> sends;
};

// Plays the lists. A begin or a send happens at the latest of the times of what it depends on;
// nothing else decides. So it does not matter which worker is followed first, and each is followed
// as far as what is known allows.
class Player {
 public:
  // REQUIRES: Check(play) is OK; `play` outlives this. Its own credits are disregarded.
  Player(const SchedulePlay& play, uint32_t credits);

  absl::StatusOr<ScheduleReport> Play();

 private:
  struct Worker {
    size_t next = 0;      // pass
    bool begun = false;   // it waits for room for output `output`
    uint32_t output = 0;  // of Ends.sends
    double time = 0;      // up to which it has been followed
    double busy = 0;
    uint32_t stash = 0;
    uint32_t peak_stash = 0;
    bool queued = false;
  };

  void AddBoundary(uint32_t from_stage, uint32_t to_stage);
  const Ends& EndsOf(uint32_t rank, const Pass& pass) const;
  double Duration(uint32_t rank, const Pass& pass) const;
  void Queue(uint32_t rank);
  // As far as possible.
  void Follow(uint32_t rank);
  bool Begin(uint32_t rank, const Pass& pass);
  bool Send(uint32_t rank, const Pass& pass);
  void Keep(const Pass& pass, Worker* worker) const;
  std::string Wait(uint32_t rank) const;
  absl::StatusOr<ScheduleReport> Report() const;

  const SchedulePlay& play_;
  const uint32_t credits_;
  std::vector<StageTimes> times_;
  std::vector<Channel> channels_;
  std::vector<Ends> forward_;   // by stage
  std::vector<Ends> backward_;  // by stage
  const Ends none_;
  std::vector<Worker> workers_;
  std::vector<uint32_t> queue_;
  bool forward_only_ = true;
};

Player::Player(const SchedulePlay& play, uint32_t credits) : play_(play), credits_(credits) {
  const uint32_t stages = play.ranks * play.chunks;
  times_ = play.times.empty() ? std::vector<StageTimes>(stages) : play.times;
  forward_.resize(stages);
  backward_.resize(stages);
  for (uint32_t s = 0; s + 1 < stages; ++s) AddBoundary(s, s + 1);
  for (const StageSkip& skip : play.skips) AddBoundary(skip.from_stage, skip.to_stage);
  workers_.resize(play.ranks);
  for (const std::vector<Pass>& passes : play.passes) {
    for (const Pass& pass : passes) {
      if (pass.kind != PassKind::kForward) forward_only_ = false;
    }
  }
}

void Player::AddBoundary(uint32_t from_stage, uint32_t to_stage) {
  Channel channel;
  channel.from_stage = from_stage;
  channel.to_stage = to_stage;
  channel.from_rank = from_stage % play_.ranks;
  channel.to_rank = to_stage % play_.ranks;
  channel.transfer = times_[from_stage].forward_transfer;
  channel.arrival.assign(play_.micro_batches, kNotYet);
  forward_[from_stage].sends.push_back(static_cast<uint32_t>(channels_.size()));
  forward_[to_stage].takes.push_back(static_cast<uint32_t>(channels_.size()));
  channels_.push_back(channel);
  std::swap(channel.from_stage, channel.to_stage);
  std::swap(channel.from_rank, channel.to_rank);
  channel.transfer = times_[to_stage].backward_transfer;
  backward_[to_stage].sends.push_back(static_cast<uint32_t>(channels_.size()));
  backward_[from_stage].takes.push_back(static_cast<uint32_t>(channels_.size()));
  channels_.push_back(channel);
}

const Ends& Player::EndsOf(uint32_t rank, const Pass& pass) const {
  const uint32_t stage = pass.chunk * play_.ranks + rank;
  if (pass.kind == PassKind::kBackwardWeights) return none_;
  return pass.kind == PassKind::kForward ? forward_[stage] : backward_[stage];
}

double Player::Duration(uint32_t rank, const Pass& pass) const {
  const StageTimes& times = times_[pass.chunk * play_.ranks + rank];
  switch (pass.kind) {
    case PassKind::kForward:
      return times.forward;
    case PassKind::kBackward:
      return times.backward_input + times.backward_weights;
    case PassKind::kBackwardInput:
      return times.backward_input;
    case PassKind::kBackwardWeights:
      return times.backward_weights;
  }
  return 0;
}

void Player::Queue(uint32_t rank) {
  if (workers_[rank].queued) return;
  workers_[rank].queued = true;
  queue_.push_back(rank);
}

void Player::Keep(const Pass& pass, Worker* worker) const {
  if (pass.kind == PassKind::kForward) {
    worker->peak_stash = std::max(worker->peak_stash, ++worker->stash);
    if (forward_only_) --worker->stash;
  } else if (pass.kind != PassKind::kBackwardInput) {
    --worker->stash;
  }
}

bool Player::Begin(uint32_t rank, const Pass& pass) {
  Worker& worker = workers_[rank];
  const Ends& ends = EndsOf(rank, pass);
  double begin = worker.time;
  for (const uint32_t c : ends.takes) {
    begin = std::max(begin, channels_[c].arrival[pass.micro_batch]);
  }
  if (begin == kNotYet) return false;
  for (const uint32_t c : ends.takes) {
    channels_[c].taken.push_back(begin);
    Queue(channels_[c].from_rank);
  }
  const double duration = Duration(rank, pass);
  worker.time = begin + duration;
  worker.busy += duration;
  worker.begun = true;
  worker.output = 0;
  Keep(pass, &worker);
  return true;
}

bool Player::Send(uint32_t rank, const Pass& pass) {
  Worker& worker = workers_[rank];
  Channel& channel = channels_[EndsOf(rank, pass).sends[worker.output]];
  const size_t sent = channel.sent.size();
  if (sent >= credits_) {
    if (channel.taken.size() <= sent - credits_) return false;
    worker.time = std::max(worker.time, channel.taken[sent - credits_]);
  }
  channel.sent.push_back(worker.time);
  channel.arrival[pass.micro_batch] = worker.time + channel.transfer;
  Queue(channel.to_rank);
  ++worker.output;
  return true;
}

void Player::Follow(uint32_t rank) {
  Worker& worker = workers_[rank];
  const std::vector<Pass>& passes = play_.passes[rank];
  while (worker.next < passes.size()) {
    const Pass& pass = passes[worker.next];
    if (!worker.begun && !Begin(rank, pass)) return;
    const size_t outputs = EndsOf(rank, pass).sends.size();
    while (worker.output < outputs) {
      if (!Send(rank, pass)) return;
    }
    worker.begun = false;
    ++worker.next;
  }
}

std::string Player::Wait(uint32_t rank) const {
  const Worker& worker = workers_[rank];
  if (worker.next == play_.passes[rank].size()) return absl::StrCat("rank ", rank, " is done");
  const Pass& pass = play_.passes[rank][worker.next];
  const Ends& ends = EndsOf(rank, pass);
  if (worker.begun) {
    const Channel& channel = channels_[ends.sends[worker.output]];
    return absl::StrCat("rank ", rank, " has done ", ToString({pass}, play_.chunks),
                        " and waits for room at rank ", channel.to_rank, " (stage ",
                        channel.to_stage, "), which has not taken ",
                        channel.sent.size() - channel.taken.size(), " tensors");
  }
  for (const uint32_t c : ends.takes) {
    const Channel& channel = channels_[c];
    if (channel.arrival[pass.micro_batch] != kNotYet) continue;
    return absl::StrCat(
        "rank ", rank, " cannot begin ", ToString({pass}, play_.chunks), " and waits for the ",
        pass.kind == PassKind::kForward ? "activation" : "gradient", " of micro-batch ",
        pass.micro_batch, " from rank ", channel.from_rank, " (stage ", channel.from_stage, ")");
  }
  return absl::StrCat("rank ", rank, " can begin ", ToString({pass}, play_.chunks));
}

// Tensors that were there at once, the one just sent included; what is taken at the same moment
// has made room.
uint32_t MostWaiting(const Channel& channel) {
  size_t most = 0;
  size_t taken = 0;
  for (size_t sent = 0; sent < channel.sent.size(); ++sent) {
    while (taken < sent && channel.taken[taken] <= channel.sent[sent]) ++taken;
    most = std::max(most, sent + 1 - taken);
  }
  return static_cast<uint32_t>(most);
}

absl::StatusOr<ScheduleReport> Player::Report() const {
  bool deadlock = false;
  std::vector<std::string> waits;
  for (uint32_t rank = 0; rank < play_.ranks; ++rank) {
    deadlock = deadlock || workers_[rank].next < play_.passes[rank].size();
  }
  if (deadlock) {
    for (uint32_t rank = 0; rank < play_.ranks; ++rank) waits.push_back(Wait(rank));
    return absl::FailedPreconditionError(absl::StrCat(
        "the schedule comes to a stop with ", credits_, " credits: ", absl::StrJoin(waits, "; ")));
  }
  ScheduleReport report;
  double busy = 0;
  for (const Worker& worker : workers_) {
    report.makespan = std::max(report.makespan, worker.time);
    report.busy.push_back(worker.busy);
    report.peak_stash.push_back(worker.peak_stash);
    busy += worker.busy;
  }
  if (report.makespan > 0) {
    report.bubble = 1 - busy / static_cast<double>(play_.ranks) / report.makespan;
  }
  for (const Channel& channel : channels_) {
    report.most_waiting = std::max(report.most_waiting, MostWaiting(channel));
  }
  return report;
}

absl::StatusOr<ScheduleReport> Player::Play() {
  for (uint32_t rank = play_.ranks; rank > 0; --rank) Queue(rank - 1);
  while (!queue_.empty()) {
    const uint32_t rank = queue_.back();
    queue_.pop_back();
    workers_[rank].queued = false;
    Follow(rank);
  }
  return Report();
}

// The fewest credits in [low, high] for which `enough` holds; more never hurt, and `high` is
// enough.
template <typename Enough>
uint32_t FewestCredits(uint32_t low, uint32_t high, Enough enough) {
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (enough(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

absl::StatusOr<ScheduleReport> PlaySchedule(const SchedulePlay& play) {
  RETURN_IF_ERROR(Check(play));
  if (play.credits == 0) {
    return absl::InvalidArgumentError("schedule: found 0 credits, expected at least 1");
  }
  return Player(play, play.credits).Play();
}

absl::StatusOr<uint32_t> LeastCredits(const SchedulePlay& play) {
  RETURN_IF_ERROR(Check(play));
  const auto ends = [&](uint32_t credits) { return Player(play, credits).Play().ok(); };
  // Hardly any schedule needs more than a few; with one for each micro-batch nobody ever waits for
  // room.
  uint32_t low = 1;
  uint32_t high = 1;
  while (high < play.micro_batches && !ends(high)) {
    low = high + 1;
    high = 2 * high < play.micro_batches ? 2 * high : play.micro_batches;
  }
  if (high == play.micro_batches) RETURN_IF_ERROR(Player(play, high).Play().status());
  return FewestCredits(low, high, ends);
}

absl::StatusOr<uint32_t> AmpleCredits(const SchedulePlay& play) {
  RETURN_IF_ERROR(Check(play));
  ASSIGN_OR_RETURN(const ScheduleReport best, Player(play, play.micro_batches).Play());
  const auto enough = [&](uint32_t credits) {
    const absl::StatusOr<ScheduleReport> report = Player(play, credits).Play();
    return report.ok() && report->makespan <= best.makespan;
  };
  // With as many as ever wait nobody waits for room, unless passes take no time.
  const uint32_t waiting = std::min(std::max(1u, best.most_waiting), play.micro_batches);
  return FewestCredits(1, enough(waiting) ? waiting : play.micro_batches, enough);
}

}  // namespace sangam
