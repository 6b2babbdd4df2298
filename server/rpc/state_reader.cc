#include "server/rpc/state_reader.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/errors/error_details.h"
#include "common/plan/page_map.h"
#include "common/rpc/channel.h"
#include "common/rpc/data_channel.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/overload.h"
#include "proto/cluster_service.grpc.pb.h"
#include "proto/parameter_service.grpc.pb.h"
#include "proto/tensor.pb.h"
#include "server/runtime/parameter_shard.h"

namespace sangam {
namespace {

// Weights and every array of state of a page are one message.
constexpr uint64_t kMaxElements = kPageElements * (1 + kMaxStateArrays);

}  // namespace

template <typename MakeReader>
absl::Status StateReader::Read(const std::string& address, const MakeReader& make_reader,
                               const TakeStatePage& page) {
  const std::shared_ptr<grpc::Channel> channel = CreateDataChannel(address, kMaxElements);
  grpc::ClientContext context;
  SetTimeout(options_.deadline, &context);
  {
    MutexLock lock(&mutex_);
    if (stopped_) return absl::UnavailableError("the server stops");
    calls_.insert(&context);
  }
  const auto reader = make_reader(channel, &context);
  absl::Status taken;
  v1::TensorFrame frame;
  while (taken.ok() && reader->Read(&frame)) taken = page(frame.header(), frame.payload());
  if (!taken.ok()) context.TryCancel();
  const absl::Status ended = FromGrpcStatusWithDetails(reader->Finish());
  MutexLock lock(&mutex_);
  calls_.erase(&context);
  if (stopped_) return absl::UnavailableError("the server stops");
  if (!taken.ok()) return taken;
  return ended;
}

template <typename ReadOnce, typename Again>
absl::Status StateReader::ReadPatiently(const Source& source, const ReadOnce& read,
                                        const Again& again, const TakeStatePage& page) {
  // Pages by segment and first element: all, and those of earlier tries, which come again.
  std::set<std::pair<uint32_t, uint64_t>> taken;
  std::set<std::pair<uint32_t, uint64_t>> taken_before;
  const TakeStatePage rest = [&](const v1::FrameHeader& header,
                                 absl::string_view payload) -> absl::Status {
    const std::pair<uint32_t, uint64_t> key = {header.segment(), header.first_element()};
    if (taken_before.count(key) > 0) return absl::OkStatus();
    RETURN_IF_ERROR(page(header, payload));
    taken.insert(key);
    return absl::OkStatus();
  };
  Backoff backoff({}, source.seed);
  absl::Duration last = Clock::Real().Steady();
  for (;;) {
    taken_before = taken;
    const absl::Status detailed = read(rest);
    // What the peer says to programs ends here.
    const absl::Status status(detailed.code(), detailed.message());
    if (!again(detailed)) return status;
    const absl::Duration now = Clock::Real().Steady();
    if (taken.size() > taken_before.size()) {
      last = now;
      backoff.Reset();
    }
    if (now - last >= options_.patience) return status;
    LogWarning("state is not read to its end, trying again", "job=%d peer=%s pages=%d status=%s",
               source.job, source.address, taken.size(), LogValue(status.ToString()));
    const absl::Duration asked = RetryDelayOf(detailed).value_or(absl::ZeroDuration());
    if (!Pause(std::max(backoff.Next(), std::min(asked, options_.patience)))) return status;
  }
}

absl::Status StateReader::ReadState(const std::string& address, uint64_t job, uint64_t step,
                                    const TakeStatePage& page) {
  return ReadPatiently(
      {address, job, job},
      [&](const TakeStatePage& rest) { return TryReadState(address, job, step, rest); },
      [](const absl::Status& status) {
        // A server that has gone is lost, with what it held.
        return IsBrokenOffForRoom(status) || IsRefusedForThreads(status) ||
               (absl::IsResourceExhausted(status) && RetryDelayOf(status).has_value());
      },
      page);
}

absl::Status StateReader::TryReadState(const std::string& address, uint64_t job, uint64_t step,
                                       const TakeStatePage& page) {
  std::unique_ptr<v1::ParameterService::Stub> stub;
  RETURN_IF_ERROR(Read(
                      address,
                      [&](const auto& channel, grpc::ClientContext* context) {
                        stub = v1::ParameterService::NewStub(channel);
                        v1::ReadStateRequest request;
                        request.set_job(job);
                        request.set_step(step);
                        return stub->ReadState(context, request);
                      },
                      page),
                  "server %s", address);
  return absl::OkStatus();
}

absl::Status StateReader::ReadCheckpoint(const std::string& address,
                                         const v1::DaemonIdentity& daemon,
                                         const v1::Assignment& assignment,
                                         const TakeStatePage& page) {
  return ReadPatiently(
      {address, assignment.plan().job(), daemon.incarnation()},
      [&](const TakeStatePage& rest) {
        return TryReadCheckpoint(address, daemon, assignment, rest);
      },
      [](const absl::Status& status) {
        return absl::IsUnavailable(status) || absl::IsCancelled(status) ||
               IsBrokenOffForRoom(status);
      },
      page);
}

bool StateReader::Pause(absl::Duration duration) {
  const absl::Duration end = Clock::Real().Steady() + duration;
  MutexLock lock(&mutex_);
  for (;;) {
    const absl::Duration left = end - Clock::Real().Steady();
    if (stopped_ || left <= absl::ZeroDuration()) return !stopped_;
    changed_.WaitFor(&mutex_, left);
  }
}

absl::Status StateReader::TryReadCheckpoint(const std::string& address,
                                            const v1::DaemonIdentity& daemon,
                                            const v1::Assignment& assignment,
                                            const TakeStatePage& page) {
  std::unique_ptr<v1::ClusterService::Stub> stub;
  RETURN_IF_ERROR(Read(
                      address,
                      [&](const auto& channel, grpc::ClientContext* context) {
                        stub = v1::ClusterService::NewStub(channel);
                        v1::ReadCheckpointRequest request;
                        *request.mutable_daemon() = daemon;
                        request.set_job(assignment.plan().job());
                        request.set_generation(assignment.plan().generation());
                        return stub->ReadCheckpoint(context, request);
                      },
                      page),
                  "coordinator %s", address);
  return absl::OkStatus();
}

void StateReader::Stop() {
  MutexLock lock(&mutex_);
  stopped_ = true;
  changed_.SignalAll();
  for (grpc::ClientContext* context : calls_) context->TryCancel();
}

}  // namespace sangam
