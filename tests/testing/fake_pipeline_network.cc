#include "tests/testing/fake_pipeline_network.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/tensor/buffer.h"
#include "worker/runtime/flow_exchange.h"
#include "worker/runtime/pipeline_link.h"

namespace sangam::testing {

class FakePipelineNetwork::Carrier final : public FlowCarrier {
 public:
  explicit Carrier(FakePipelineNetwork* network) : network_(network) {}
  void Wake() override { network_->Wake(); }
  // The exchange has ended, so it gives no more frames.
  void End(const absl::Status& /*error*/) override {}

 private:
  FakePipelineNetwork* const network_;
};

class FakePipelineNetwork::Link final : public PipelineLink {
 public:
  Link(FakePipelineNetwork* network, std::shared_ptr<FlowExchange> exchange)
      : network_(network), exchange_(std::move(exchange)) {}
  ~Link() override { const absl::Status ignored = Close(absl::ZeroDuration()); }

  absl::Status Start(std::function<void(const absl::Status&)> on_failure) override {
    watch_ = std::thread([this, on_failure = std::move(on_failure)] {
      while (!exchange_->AwaitEnd(absl::Hours(1))) {
      }
      const absl::Status failure = exchange_->failure();
      if (!failure.ok() && on_failure != nullptr) on_failure(failure);
    });
    return absl::OkStatus();
  }
  absl::StatusOr<FloatBuffer> Reserve(uint32_t lane, uint32_t boundary, FlowDirection direction,
                                      absl::Duration stall_limit) override {
    return exchange_->Reserve(lane, boundary, direction, stall_limit);
  }
  absl::Status Send(uint32_t lane, const FlowTag& tag, FlowShape shape,
                    FloatBuffer elements) override {
    return exchange_->Send(lane, tag, shape, std::move(elements));
  }
  absl::StatusOr<FloatBuffer> Receive(uint32_t lane, const FlowTag& tag, FlowShape shape,
                                      absl::Duration stall_limit) override {
    return exchange_->Receive(lane, tag, shape, stall_limit);
  }
  void Stop() override { exchange_->Stop(); }
  void Fail(const absl::Status& reason) override { exchange_->Fail(reason); }

  absl::Status Close(absl::Duration deadline) override {
    if (network_ == nullptr) return closed_with_;
    const bool taken = exchange_->AwaitTaken(Clock::Real().Steady() + deadline);
    closed_with_ = exchange_->failure();
    if (closed_with_.ok() && !taken) {
      closed_with_ = absl::DeadlineExceededError("other workers did not take what was sent");
    }
    network_->Detach(exchange_.get());
    exchange_->Close();
    if (watch_.joinable()) watch_.join();
    network_ = nullptr;
    return closed_with_;
  }

 private:
  FakePipelineNetwork* network_;  // until it is closed
  const std::shared_ptr<FlowExchange> exchange_;
  absl::Status closed_with_;
  std::thread watch_;
};

FakePipelineNetwork::FakePipelineNetwork()
    : carrier_(std::make_shared<Carrier>(this)), thread_([this] { Work(); }) {}

FakePipelineNetwork::~FakePipelineNetwork() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

PipelineLinkFactory FakePipelineNetwork::Factory() {
  return
      [this](const PipelineLinkOptions& options) -> absl::StatusOr<std::unique_ptr<PipelineLink>> {
        ASSIGN_OR_RETURN(std::shared_ptr<FlowExchange> exchange, FlowExchange::Create(options));
        Attach(exchange);
        return std::unique_ptr<PipelineLink>(std::make_unique<Link>(this, std::move(exchange)));
      };
}

void FakePipelineNetwork::Attach(const std::shared_ptr<FlowExchange>& exchange) {
  MutexLock lock(&mutex_);
  exchanges_[exchange->worker()] = exchange;
  // Streams of an exchange that lay where this one lies are none of this one.
  cut_ = true;
  woken_ = true;
  changed_.SignalAll();
}

void FakePipelineNetwork::Detach(const FlowExchange* exchange) {
  MutexLock lock(&mutex_);
  const auto found = exchanges_.find(exchange->worker());
  if (found != exchanges_.end() && found->second.get() == exchange) exchanges_.erase(found);
  woken_ = true;
  changed_.SignalAll();
}

void FakePipelineNetwork::Fail(uint32_t worker, const absl::Status& status) {
  std::shared_ptr<FlowExchange> exchange;
  {
    MutexLock lock(&mutex_);
    const auto found = exchanges_.find(worker);
    if (found != exchanges_.end()) exchange = found->second;
  }
  if (exchange != nullptr) exchange->Fail(status);
}

bool FakePipelineNetwork::Has(uint32_t worker) const {
  MutexLock lock(&mutex_);
  return exchanges_.count(worker) > 0;
}

void FakePipelineNetwork::Cut() {
  MutexLock lock(&mutex_);
  cut_ = true;
  woken_ = true;
  changed_.SignalAll();
}

uint64_t FakePipelineNetwork::num_frames() const {
  MutexLock lock(&mutex_);
  return frames_;
}

void FakePipelineNetwork::Wake() {
  MutexLock lock(&mutex_);
  woken_ = true;
  changed_.SignalAll();
}

void FakePipelineNetwork::Work() {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      while (!woken_ && !stopped_) changed_.WaitFor(&mutex_, absl::Hours(1));
      if (stopped_) return;
      woken_ = false;
      if (std::exchange(cut_, false)) streams_.clear();
    }
    while (CarryFrames()) {
    }
  }
}

bool FakePipelineNetwork::CarryFrames() {
  std::vector<std::shared_ptr<FlowExchange>> exchanges;
  {
    MutexLock lock(&mutex_);
    if (stopped_ || cut_) return false;
    for (const auto& [worker, exchange] : exchanges_) exchanges.push_back(exchange);
  }
  bool carried = false;
  for (const auto& exchange : exchanges) {
    for (size_t side = 0; side < exchange->sides().size(); ++side) {
      if (CarryFrom(exchange.get(), side)) carried = true;
    }
  }
  return carried;
}

bool FakePipelineNetwork::CarryFrom(FlowExchange* from, size_t side) {
  const FlowExchange::Side& description = from->sides()[side];
  std::shared_ptr<FlowExchange> to;
  {
    MutexLock lock(&mutex_);
    const auto self = exchanges_.find(from->worker());
    if (self == exchanges_.end() || self->second.get() != from) return false;
    const auto found = exchanges_.find(description.worker);
    if (found != exchanges_.end()) to = found->second;
  }
  if (to == nullptr) {
    // It has left in order.
    const auto stream = streams_.find({from, side});
    if (stream == streams_.end()) return false;
    from->CloseStream(side, stream->second, true);
    streams_.erase(stream);
    return false;
  }
  size_t facing = 0;
  while (facing < to->sides().size() && (to->sides()[facing].worker != from->worker() ||
                                         to->sides()[facing].opens == description.opens)) {
    ++facing;
  }
  if (facing == to->sides().size()) return false;
  // Both ends at once, as a stream does.
  if (streams_.count({from, side}) == 0 || streams_.count({to.get(), facing}) == 0) {
    const absl::StatusOr<uint64_t> near = from->OpenStream(side, carrier_);
    if (!near.ok()) return false;
    const absl::StatusOr<uint64_t> far = to->OpenStream(facing, carrier_);
    if (!far.ok()) {
      from->CloseStream(side, *near, true);
      return false;
    }
    streams_[{from, side}] = *near;
    streams_[{to.get(), facing}] = *far;
  }
  const std::optional<FlowExchange::Frame> frame = from->NextFrame(side, streams_[{from, side}]);
  if (!frame.has_value()) return false;
  {
    MutexLock lock(&mutex_);
    ++frames_;
  }
  const absl::Status status =
      to->OnFrame(facing, streams_[{to.get(), facing}], frame->header, frame->payload);
  // As a refused stream would tell the one who has sent it.
  if (!status.ok()) from->Fail(status);
  return true;
}

}  // namespace sangam::testing
