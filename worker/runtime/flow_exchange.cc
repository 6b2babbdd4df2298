#include "worker/runtime/flow_exchange.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/plan/page_map.h"
#include "common/plan/pipeline_layout.h"
#include "common/tensor/buffer.h"
#include "common/tensor/frame_codec.h"
#include "common/tensor/slices.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "worker/backend/device_lost.h"
#include "worker/core/flow_inbox.h"
#include "worker/core/flow_ledger.h"
#include "worker/core/flow_map.h"
#include "worker/core/flow_tag.h"

namespace sangam {
namespace {

// How often a lane looks whether gRPC has let go of a buffer whose tensor was taken: nothing tells.
constexpr absl::Duration kBufferPoll = absl::Milliseconds(1);

absl::Duration Now() { return Clock::Real().Steady(); }

std::string KindName(v1::FrameKind kind) {
  const std::string name = v1::FrameKind_Name(kind);
  return name.empty() ? absl::StrCat(static_cast<int>(kind)) : name;
}

// What other workers are told of a failure: not by a code after which they would try again, and a
// lost device not by one that makes the job's end of what is this worker's alone.
absl::Status ForPeers(const absl::Status& failure) {
  const bool looks_lost = absl::IsUnavailable(failure) || absl::IsCancelled(failure) ||
                          absl::IsNotFound(failure) || IsDeviceLost(failure);
  return absl::Status(looks_lost ? absl::StatusCode::kAborted : failure.code(), failure.message());
}

std::string Limit(absl::Duration limit) {
  return absl::FormatDuration(absl::Trunc(limit, absl::Milliseconds(1)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<FlowExchange>> FlowExchange::Create(
    const PipelineLinkOptions& options) {
  const v1::Plan& plan = *options.plan;
  RETURN_IF_ERROR(CheckStages(plan));
  ASSIGN_OR_RETURN(FlowMap map, FlowMap::Create(plan, options.worker, options.lanes));
  if (!map.edges().empty() && plan.credits() == 0) {
    return absl::InvalidArgumentError("plan.credits: found 0, expected at least 1");
  }
  std::shared_ptr<FlowExchange> exchange(new FlowExchange(options, std::move(map)));
  RETURN_IF_ERROR(exchange->MakePools(options));
  return exchange;
}

FlowExchange::FlowExchange(const PipelineLinkOptions& options, FlowMap map)
    : map_(std::move(map)), max_rows_(options.max_rows), credits_(options.plan->credits()) {
  const v1::Plan& plan = *options.plan;
  const v1::WorkerPlan& self = plan.worker(static_cast<int>(options.worker));
  sender_.set_job(plan.job());
  sender_.set_generation(plan.generation());
  sender_.set_source(options.worker);
  hello_.set_protocol_version(kProtocolVersion);
  hello_.set_schema_hash(plan.schema_hash());
  hello_.set_worker(self.name());
  hello_.set_incarnation(self.incarnation());
  for (const v1::WorkerPlan& worker : plan.worker()) {
    names_.push_back(absl::StrCat("worker ", worker.name(), " (", worker.address(), ")"));
    plain_names_.push_back(worker.name());
    incarnations_.push_back(worker.incarnation());
  }
  const auto add = [&](uint32_t peer, bool opens) {
    const v1::WorkerPlan& worker = plan.worker(static_cast<int>(peer));
    descriptions_.push_back({peer, worker.name(), worker.address(), opens});
    states_.push_back(std::make_unique<SideState>(credits_, kPageElements));
  };
  for (const uint32_t peer : map_.PeersBehind()) add(peer, true);
  for (const uint32_t peer : map_.PeersInFront()) add(peer, false);
  // This worker's traffic with itself is not cut into pieces.
  states_.push_back(std::make_unique<SideState>(credits_, std::numeric_limits<uint64_t>::max()));
  for (uint32_t lane = 0; lane < map_.lanes(); ++lane) {
    lane_changed_.push_back(std::make_unique<CondVar>());
  }
}

absl::Status FlowExchange::MakePools(const PipelineLinkOptions& options) {
  const uint32_t self = map_.worker();
  MutexLock lock(&mutex_);
  for (const FlowEdge& edge : map_.edges()) {
    const uint64_t columns = edge.boundary.columns;
    if (columns > 0 && max_rows_ > std::numeric_limits<size_t>::max() / sizeof(float) / columns) {
      return absl::ResourceExhaustedError(absl::StrCat("boundary ", edge.boundary.id, ": tensors ",
                                                       ToString(FlowShape{max_rows_, columns}),
                                                       " are too large"));
    }
    const size_t elements = std::max<size_t>(1, max_rows_ * columns);
    for (const FlowDirection direction : {FlowDirection::kForward, FlowDirection::kBackward}) {
      size_t buffers = size_t{map_.lanes()} * credits_;
      if (edge.ReceiverOf(direction) == self) buffers += options.kept;
      // Room for lanes that keep more than was said: rather memory than an error then.
      FloatBufferPool& pool =
          pools_.try_emplace({edge.boundary.id, direction}, elements, 2 * buffers).first->second;
      std::vector<FloatBuffer> taken;
      for (size_t i = 0; i < buffers; ++i) {
        ASSIGN_OR_RETURN(FloatBuffer buffer, pool.Take(), "%s boundary %d", ToString(direction),
                         edge.boundary.id);
        taken.push_back(std::move(buffer));
      }
    }
  }
  return absl::OkStatus();
}

std::string FlowExchange::NameOf(uint32_t worker) const { return names_[worker]; }

std::string FlowExchange::NameOfSide(size_t side) const {
  return side < descriptions_.size() ? names_[descriptions_[side].worker] : names_[worker()];
}

std::string FlowExchange::Way(uint32_t from, uint32_t to) const {
  return absl::StrCat("from ", NameOf(from), " to ", NameOf(to));
}

size_t FlowExchange::SideOf(const FlowEdge& edge) const {
  const uint32_t self = map_.worker();
  const bool opens = edge.from_worker == self;
  const uint32_t peer = opens ? edge.to_worker : edge.from_worker;
  size_t side = 0;
  while (side < descriptions_.size() &&
         (descriptions_[side].worker != peer || descriptions_[side].opens != opens)) {
    ++side;
  }
  return side;
}

absl::StatusOr<FlowEdge> FlowExchange::EdgeFor(uint32_t lane, uint32_t boundary) const {
  if (lane >= map_.lanes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("lane: found ", lane, ", expected less than ", map_.lanes()));
  }
  return map_.EdgeOf(boundary);
}

// ---- Lanes ----

absl::StatusOr<FloatBuffer> FlowExchange::Reserve(uint32_t lane, uint32_t boundary,
                                                  FlowDirection direction,
                                                  absl::Duration stall_limit) {
  ASSIGN_OR_RETURN(const FlowEdge edge, EdgeFor(lane, boundary));
  if (edge.SenderOf(direction) != worker()) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToString(direction), " boundary ", boundary, ": found ", NameOf(worker()),
                     " as its sender, expected ", NameOf(edge.SenderOf(direction))));
  }
  const size_t side = SideOf(edge);
  MutexLock lock(&mutex_);
  ++states_[side]->waiters;
  absl::StatusOr<FloatBuffer> buffer = WaitForRoom({lane, boundary, direction}, side, stall_limit);
  --states_[side]->waiters;
  return buffer;
}

absl::StatusOr<FloatBuffer> FlowExchange::WaitForRoom(const FlowRoute& route, size_t side,
                                                      absl::Duration stall_limit) {
  const absl::Duration until = Now() + stall_limit;
  FlowLedger& ledger = states_[side]->ledger;
  bool reserved = false;
  for (;;) {
    if (!end_.ok()) return end_;
    if (!reserved) reserved = ledger.Reserve(route);
    if (reserved) {
      // Not earlier: an exchange that is closed has no pools.
      absl::StatusOr<FloatBuffer> buffer =
          pools_.find({route.boundary, route.direction})->second.Take();
      if (buffer.ok()) return buffer;
    }
    const absl::Duration left = until - Now();
    if (left <= absl::ZeroDuration()) {
      if (reserved) ledger.Release(route);
      const std::optional<FlowTag> oldest = ledger.OldestOf(route);
      return absl::DeadlineExceededError(absl::StrCat(
          NameOfSide(side), ": no room for ", ToString(route.direction), " boundary ",
          route.boundary, " for ", Limit(stall_limit),
          oldest.has_value() ? absl::StrCat("; not taken: ", ToString(*oldest)) : std::string()));
    }
    lane_changed_[route.lane]->WaitFor(&mutex_, reserved ? std::min(left, kBufferPoll) : left);
  }
}

absl::Status FlowExchange::CheckSend(uint32_t lane, const FlowTag& tag, FlowShape shape,
                                     const FloatBuffer& elements) const {
  ASSIGN_OR_RETURN(const FlowEdge edge, EdgeFor(lane, tag.boundary));
  ASSIGN_OR_RETURN(const FlowRoute route, map_.RouteOf(tag));
  if (route.lane != lane) {
    return absl::InvalidArgumentError(
        absl::StrCat("lane: found ", lane, ", expected ", route.lane));
  }
  if (edge.SenderOf(tag.direction) != worker()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sender: found ", NameOf(worker()), ", expected ", NameOf(edge.SenderOf(tag.direction))));
  }
  const FlowShape most = {max_rows_, edge.boundary.columns};
  if (shape.columns != most.columns || shape.rows > most.rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape: found ", ToString(shape), ", expected at most ", ToString(most)));
  }
  if (elements.size() < shape.elements()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "found a buffer of ", elements.size(), " elements, expected at least ", shape.elements()));
  }
  return absl::OkStatus();
}

absl::Status FlowExchange::Send(uint32_t lane, const FlowTag& tag, FlowShape shape,
                                FloatBuffer elements) {
  RETURN_IF_ERROR(CheckSend(lane, tag, shape, elements), "%s", ToString(tag));
  ASSIGN_OR_RETURN(const FlowEdge edge, EdgeFor(lane, tag.boundary));
  const FlowRoute route = {lane, tag.boundary, tag.direction};
  const size_t side = SideOf(edge);
  std::shared_ptr<FlowCarrier> carrier;
  {
    MutexLock lock(&mutex_);
    if (!end_.ok()) return end_;
    SideState& state = *states_[side];
    if (side < descriptions_.size()) {
      RETURN_IF_ERROR(state.ledger.Add(route, {tag, shape, std::move(elements)}));
      carrier = state.carrier.lock();
    } else {
      // The ledger only counts; nobody asks it for pieces.
      RETURN_IF_ERROR(state.ledger.Add(route, {tag, shape, FloatBuffer()}));
      state.ledger.TakePiece();
      RETURN_IF_ERROR(state.inbox
                          .OnPiece(route, tag, shape, 0, shape.elements(),
                                   [&elements] { return std::move(elements); })
                          .status());
      state.inbox.Complete(tag);
      lane_changed_[lane]->SignalAll();
    }
  }
  if (carrier != nullptr) carrier->Wake();
  return absl::OkStatus();
}

absl::StatusOr<FloatBuffer> FlowExchange::Receive(uint32_t lane, const FlowTag& tag,
                                                  FlowShape shape, absl::Duration stall_limit) {
  ASSIGN_OR_RETURN(const FlowEdge edge, EdgeFor(lane, tag.boundary), "%s", ToString(tag));
  ASSIGN_OR_RETURN(const FlowRoute route, map_.RouteOf(tag), "%s", ToString(tag));
  if (route.lane != lane || edge.ReceiverOf(tag.direction) != worker()) {
    return absl::InvalidArgumentError(absl::StrCat(
        ToString(tag), ": found lane ", lane, " of ", NameOf(worker()), " as its receiver",
        ", expected lane ", route.lane, " of ", NameOf(edge.ReceiverOf(tag.direction))));
  }
  const size_t side = SideOf(edge);
  std::shared_ptr<FlowCarrier> carrier;
  std::optional<FlowTensor> tensor;
  {
    MutexLock lock(&mutex_);
    SideState& state = *states_[side];
    ++state.waiters;
    absl::Status waited = WaitForTensor(lane, tag, side, stall_limit);
    --state.waiters;
    if (!waited.ok()) return waited;
    const FlowTensor* here = state.inbox.Find(tag);
    if (here->shape != shape) {
      return absl::InvalidArgumentError(
          absl::StrCat(Way(edge.SenderOf(tag.direction), worker()), ": ", ToString(tag), ": found ",
                       ToString(here->shape), ", expected ", ToString(shape)));
    }
    tensor = state.inbox.Take(tag);
    if (side < descriptions_.size()) {
      state.answers.push_back(tag);
      carrier = state.carrier.lock();
    } else if (state.ledger.OnTaken(tag).has_value()) {
      lane_changed_[lane]->SignalAll();
    }
  }
  if (carrier != nullptr) carrier->Wake();
  return std::move(tensor->elements);
}

absl::Status FlowExchange::WaitForTensor(uint32_t lane, const FlowTag& tag, size_t side,
                                         absl::Duration stall_limit) {
  const absl::Duration until = Now() + stall_limit;
  for (;;) {
    if (!end_.ok()) return end_;
    if (states_[side]->inbox.Find(tag) != nullptr) return absl::OkStatus();
    const absl::Duration left = until - Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat(NameOfSide(side), ": ", ToString(tag),
                                                      " has not come for ", Limit(stall_limit)));
    }
    lane_changed_[lane]->WaitFor(&mutex_, left);
  }
}

// ---- Ends ----

void FlowExchange::End(State state, const absl::Status& status, std::optional<size_t> except) {
  {
    MutexLock lock(&mutex_);
    if (state_ != State::kOpen) return;
    state_ = state;
    end_ = status;
    if (state == State::kFailed) failure_ = status;
    for (const auto& changed : lane_changed_) changed->SignalAll();
    ended_.SignalAll();
    progressed_.SignalAll();
  }
  EndStreams(state == State::kFailed ? ForPeers(status) : EndedStatus(), except);
}

absl::Status FlowExchange::EndedStatus() const {
  return absl::UnavailableError(
      absl::StrCat(NameOf(worker()), " has ended its part in job ", job()));
}

void FlowExchange::EndStreams(const absl::Status& status, std::optional<size_t> except) {
  std::vector<std::shared_ptr<FlowCarrier>> carriers;
  {
    MutexLock lock(&mutex_);
    for (size_t side = 0; side < descriptions_.size(); ++side) {
      if (except != side) carriers.push_back(states_[side]->carrier.lock());
    }
  }
  for (const auto& carrier : carriers) {
    if (carrier != nullptr) carrier->End(status);
  }
}

void FlowExchange::Stop() {
  End(State::kStopped, absl::CancelledError("the link was stopped"), std::nullopt);
}

void FlowExchange::Fail(const absl::Status& status) { End(State::kFailed, status, std::nullopt); }

void FlowExchange::Close() {
  End(State::kClosed, absl::CancelledError("the link is closed"), std::nullopt);
  MutexLock lock(&mutex_);
  for (const auto& state : states_) {
    state->ledger.Clear();
    state->inbox.Clear();
  }
  pools_.clear();
}

absl::Status FlowExchange::failure() const {
  MutexLock lock(&mutex_);
  return failure_;
}

bool FlowExchange::AwaitEnd(absl::Duration timeout) {
  const absl::Duration until = Now() + timeout;
  MutexLock lock(&mutex_);
  while (state_ == State::kOpen) {
    const absl::Duration left = until - Now();
    if (left <= absl::ZeroDuration()) return false;
    ended_.WaitFor(&mutex_, left);
  }
  return true;
}

bool FlowExchange::AllTaken() {
  for (size_t side = 0; side < descriptions_.size(); ++side) {
    const SideState& state = *states_[side];
    if (state.ledger.num_untaken() > 0) return false;
    // A stream that has ended in order wants no answers.
    if (!state.answers.empty() && !state.over) return false;
  }
  return true;
}

bool FlowExchange::AwaitTaken(absl::Duration until) {
  MutexLock lock(&mutex_);
  while (state_ == State::kOpen && !AllTaken()) {
    const absl::Duration left = until - Now();
    if (left <= absl::ZeroDuration()) return false;
    progressed_.WaitFor(&mutex_, left);
  }
  return true;
}

bool FlowExchange::AwaitStreamsOver(absl::Duration until) {
  MutexLock lock(&mutex_);
  for (size_t side = 0; side < descriptions_.size(); ++side) {
    const SideState& state = *states_[side];
    if (descriptions_[side].opens || state.stream == 0) continue;
    while (state_ == State::kOpen && !state.over) {
      const absl::Duration left = until - Now();
      if (left <= absl::ZeroDuration()) return false;
      progressed_.WaitFor(&mutex_, left);
    }
  }
  return true;
}

bool FlowExchange::Needs(size_t side) const {
  MutexLock lock(&mutex_);
  return states_[side]->waiters > 0 || states_[side]->ledger.num_untaken() > 0;
}

absl::Status FlowExchange::LostPeer(absl::Duration limit) {
  const absl::Duration now = Now();
  MutexLock lock(&mutex_);
  for (size_t side = 0; side < descriptions_.size(); ++side) {
    const SideState& state = *states_[side];
    if (descriptions_[side].opens || state.open || state.waiters == 0) continue;
    if (now - state.not_open_since >= limit) {
      return absl::UnavailableError(
          absl::StrCat(NameOfSide(side), ": it has had no stream open for ",
                       Limit(now - state.not_open_since), ", expected one within ", Limit(limit)));
    }
  }
  return absl::OkStatus();
}

void FlowExchange::StartClock() {
  const absl::Duration now = Now();
  MutexLock lock(&mutex_);
  for (const auto& state : states_) state->not_open_since = now;
}

// ---- Transport ----

FlowExchange::Frame FlowExchange::Hello() const {
  Frame frame = {sender_, EncodeHello(hello_)};
  frame.header.set_kind(v1::FRAME_KIND_HELLO);
  return frame;
}

absl::StatusOr<size_t> FlowExchange::CheckHello(const v1::FrameHeader& header,
                                                const v1::StreamHello& hello) {
  if (hello.protocol_version() != kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat("protocol version: worker '", hello.worker(),
                                                      "' has ", hello.protocol_version(), ", ",
                                                      NameOf(worker()), " has ", kProtocolVersion));
  }
  if (header.generation() != generation()) {
    return absl::AbortedError(absl::StrCat("generation of job ", job(), ": worker '",
                                           hello.worker(), "' has ", header.generation(), ", ",
                                           NameOf(worker()), " has ", generation()));
  }
  for (size_t side = 0; side < descriptions_.size(); ++side) {
    const Side& expected = descriptions_[side];
    if (expected.opens || expected.worker != header.source()) continue;
    if (hello.worker() != expected.name) {
      return absl::InvalidArgumentError(absl::StrCat("worker: found '", hello.worker(),
                                                     "' as source ", header.source(),
                                                     ", the plan has '", expected.name, "'"));
    }
    if (hello.incarnation() != incarnations_[expected.worker]) {
      return absl::AbortedError(absl::StrCat("incarnation of worker '", hello.worker(), "': found ",
                                             hello.incarnation(), ", the plan has ",
                                             incarnations_[expected.worker]));
    }
    if (hello.schema_hash() != hello_.schema_hash()) {
      return absl::FailedPreconditionError(
          absl::StrCat("schema of job ", job(), ": worker '", hello.worker(), "' has ",
                       hello.schema_hash(), ", ", NameOf(worker()), " has ", hello_.schema_hash()));
    }
    return side;
  }
  return absl::InvalidArgumentError(absl::StrCat("source: found ", header.source(),
                                                 ", expected a worker that sends activations to ",
                                                 NameOf(worker())));
}

absl::StatusOr<uint64_t> FlowExchange::OpenStream(size_t side,
                                                  const std::shared_ptr<FlowCarrier>& carrier) {
  SideState& state = *states_[side];
  // No frame of the stream before is being written to memory that is let go of here.
  MutexLock receive_lock(&state.receive_mutex);
  MutexLock lock(&mutex_);
  if (!failure_.ok()) return ForPeers(failure_);
  if (state_ != State::kOpen) return EndedStatus();
  state.carrier = carrier;
  state.open = true;
  state.over = false;
  AnswerAgain(&state);
  state.inbox.DropIncomplete();
  state.ledger.SendAgain();
  return ++state.stream;
}

void FlowExchange::AnswerAgain(SideState* state) {
  // Among them those that wait: they are the latest.
  state->answers = state->inbox.RecentlyTaken();
  state->next_answer = 0;
}

void FlowExchange::CloseStream(size_t side, uint64_t stream, bool in_order) {
  MutexLock lock(&mutex_);
  SideState& state = *states_[side];
  if (state.stream != stream) return;
  state.open = false;
  state.over = in_order;
  state.not_open_since = Now();
  // Until there is a new stream nobody can tell whether the last ones have come.
  if (!in_order) AnswerAgain(&state);
  progressed_.SignalAll();
}

std::optional<FlowExchange::Frame> FlowExchange::NextFrame(size_t side, uint64_t stream) {
  Frame frame;
  frame.header = sender_;
  FlowTag tag;
  MutexLock lock(&mutex_);
  SideState& state = *states_[side];
  if (state_ != State::kOpen || state.stream != stream) return std::nullopt;
  if (state.next_answer < state.answers.size()) {
    tag = state.answers[state.next_answer++];
    if (state.next_answer == state.answers.size()) {
      state.answers.clear();
      state.next_answer = 0;
      progressed_.SignalAll();
    }
    frame.header.set_kind(v1::FRAME_KIND_TAKEN);
    frame.header.set_backward(tag.direction == FlowDirection::kBackward);
  } else if (std::optional<FlowPiece> piece = state.ledger.TakePiece()) {
    tag = piece->tensor.tag;
    frame.header.set_kind(tag.direction == FlowDirection::kForward
                              ? v1::FRAME_KIND_ACTIVATION
                              : v1::FRAME_KIND_ACTIVATION_GRADIENT);
    frame.header.set_encoding(v1::ENCODING_FP32);
    frame.header.set_first_element(piece->first_element);
    frame.header.set_element_count(piece->element_count);
    frame.header.set_rows(piece->tensor.shape.rows);
    frame.header.set_columns(piece->tensor.shape.columns);
    if (piece->element_count > 0) {
      frame.payload = SlicePayload::FromFloats(std::move(piece->tensor.elements),
                                               piece->first_element, piece->element_count);
    }
  } else {
    return std::nullopt;
  }
  frame.header.set_step(tag.step);
  frame.header.set_evaluation(tag.evaluation);
  frame.header.set_micro_batch(tag.micro_batch);
  frame.header.set_boundary(tag.boundary);
  return frame;
}

absl::Status FlowExchange::OnFrame(size_t side, uint64_t stream, const v1::FrameHeader& header,
                                   const SlicePayload& payload) {
  absl::Status status = WithContext(Dispatch(side, stream, header, payload),
                                    Way(descriptions_[side].worker, worker()));
  if (!status.ok()) End(State::kFailed, status, side);
  return status;
}

absl::Status FlowExchange::Dispatch(size_t side, uint64_t stream, const v1::FrameHeader& header,
                                    const SlicePayload& payload) {
  RETURN_IF_ERROR(CheckFrame(side, header));
  ASSIGN_OR_RETURN(const FlowTag tag, TagOf(side, header));
  if (header.kind() == v1::FRAME_KIND_TAKEN) return OnTaken(side, stream, tag);
  ASSIGN_OR_RETURN(const FlowEdge edge, map_.EdgeOf(tag.boundary));
  RETURN_IF_ERROR(CheckPiece(header, edge, payload.size()), "%s", ToString(tag));
  return WithContext(OnPiece(side, stream, tag, header, payload), ToString(tag));
}

absl::Status FlowExchange::CheckFrame(size_t side, const v1::FrameHeader& header) const {
  if (header.job() != job()) {
    return absl::PermissionDeniedError(
        absl::StrCat("job: found ", header.job(), ", expected ", job()));
  }
  if (header.generation() != generation()) {
    return absl::AbortedError(
        absl::StrCat("generation: found ", header.generation(), ", expected ", generation()));
  }
  const Side& description = descriptions_[side];
  if (header.source() != description.worker) {
    return absl::InvalidArgumentError(
        absl::StrCat("source: found ", header.source(), ", expected ", description.worker));
  }
  const v1::FrameKind expected =
      description.opens ? v1::FRAME_KIND_ACTIVATION_GRADIENT : v1::FRAME_KIND_ACTIVATION;
  if (header.kind() != expected && header.kind() != v1::FRAME_KIND_TAKEN) {
    return absl::InvalidArgumentError(absl::StrCat("kind: found ", KindName(header.kind()),
                                                   ", expected ", KindName(expected),
                                                   " or FRAME_KIND_TAKEN"));
  }
  return absl::OkStatus();
}

absl::StatusOr<FlowTag> FlowExchange::TagOf(size_t side, const v1::FrameHeader& header) const {
  const bool taken = header.kind() == v1::FRAME_KIND_TAKEN;
  const bool backward =
      taken ? header.backward() : header.kind() == v1::FRAME_KIND_ACTIVATION_GRADIENT;
  FlowTag tag;
  tag.step = header.step();
  tag.evaluation = header.evaluation();
  tag.micro_batch = header.micro_batch();
  tag.boundary = header.boundary();
  tag.direction = backward ? FlowDirection::kBackward : FlowDirection::kForward;
  ASSIGN_OR_RETURN(const FlowEdge edge, map_.EdgeOf(tag.boundary), "%s", ToString(tag));
  RETURN_IF_ERROR(map_.RouteOf(tag).status(), "%s", ToString(tag));
  // A TAKEN goes against its tensor.
  const uint32_t sender = edge.SenderOf(tag.direction);
  const uint32_t receiver = edge.ReceiverOf(tag.direction);
  if (SideOf(edge) != side || (taken ? sender : receiver) != worker()) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToString(tag), ": found ", taken ? "TAKEN of it" : "it",
                     " on this stream, expected what goes ", Way(sender, receiver)));
  }
  return tag;
}

absl::Status FlowExchange::CheckPiece(const v1::FrameHeader& header, const FlowEdge& edge,
                                      size_t payload_bytes) const {
  if (header.encoding() != v1::ENCODING_FP32) {
    return absl::InvalidArgumentError(absl::StrCat(
        "encoding: found ", v1::Encoding_Name(header.encoding()), ", expected ENCODING_FP32"));
  }
  const FlowShape shape = {header.rows(), header.columns()};
  const FlowShape most = {max_rows_, edge.boundary.columns};
  if (shape.columns != most.columns || shape.rows > most.rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape: found ", ToString(shape), ", expected at most ", ToString(most)));
  }
  const uint64_t elements = shape.elements();
  const uint64_t count = header.element_count();
  if (header.first_element() > elements || count > elements - header.first_element() ||
      (count == 0 && elements > 0) || count > kPageElements) {
    return absl::InvalidArgumentError(absl::StrCat("found a piece of ", count, " elements from ",
                                                   header.first_element(), ", expected at most ",
                                                   kPageElements, " of the ", elements));
  }
  if (payload_bytes != count * sizeof(float)) {
    return absl::InvalidArgumentError(
        absl::StrCat("payload: found ", payload_bytes, " bytes, expected ", count * sizeof(float)));
  }
  return absl::OkStatus();
}

absl::Status FlowExchange::OnTaken(size_t side, uint64_t stream, const FlowTag& tag) {
  MutexLock lock(&mutex_);
  SideState& state = *states_[side];
  if (state_ != State::kOpen || state.stream != stream) return absl::OkStatus();
  const std::optional<FlowRoute> route = state.ledger.OnTaken(tag);
  if (!route.has_value()) return absl::OkStatus();
  lane_changed_[route->lane]->SignalAll();
  if (state.ledger.num_untaken() == 0) progressed_.SignalAll();
  return absl::OkStatus();
}

absl::Status FlowExchange::OnPiece(size_t side, uint64_t stream, const FlowTag& tag,
                                   const v1::FrameHeader& header, const SlicePayload& payload) {
  SideState& state = *states_[side];
  std::shared_ptr<FlowCarrier> carrier;
  {
    MutexLock receive_lock(&state.receive_mutex);
    ASSIGN_OR_RETURN(const FlowRoute route, map_.RouteOf(tag));
    FlowInbox::Arrival arrival;
    {
      MutexLock lock(&mutex_);
      if (state_ != State::kOpen || state.stream != stream) return absl::OkStatus();
      FloatBufferPool& pool = pools_.find({tag.boundary, tag.direction})->second;
      ASSIGN_OR_RETURN(arrival, state.inbox.OnPiece(route, tag, {header.rows(), header.columns()},
                                                    header.first_element(), header.element_count(),
                                                    [&pool] { return pool.Take(); }));
      if (arrival.fate == FlowInbox::Fate::kAnswer) {
        state.answers.push_back(tag);
        carrier = state.carrier.lock();
      }
    }
    if (arrival.fate == FlowInbox::Fate::kWrite) {
      // Lanes go on meanwhile.
      payload.CopyTo(arrival.elements.data() + header.first_element());
      if (arrival.last) {
        MutexLock lock(&mutex_);
        state.inbox.Complete(tag);
        lane_changed_[route.lane]->SignalAll();
      }
    }
  }
  if (carrier != nullptr) carrier->Wake();
  return absl::OkStatus();
}

}  // namespace sangam
