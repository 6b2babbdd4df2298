#include "client/weights_reader.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/call_queue.h"
#include "client/human_format.h"
#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/data_channel.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/overload.h"
#include "proto/parameter_service.grpc.pb.h"
#include "proto/parameter_service.pb.h"

namespace sangam {
namespace {

// The job does not tell its pages' size; a bound for what one message may hold: 64 MiB of fp32.
constexpr uint64_t kLargestPageElements = uint64_t{1} << 24;

// Step, segment, first element and number of elements of a page.
using PageKey = std::tuple<uint64_t, uint32_t, uint64_t, uint64_t>;

// Reads the pages of one server.
class ServerReader {
 public:
  ServerReader(const std::string& address, const WeightsReaderOptions& options)
      : address_(address), options_(options), queue_([this] { return Idle(); }) {}

  // Tries again while nothing has come, and where the server broke off for want of memory. A server
  // that is lost later is lost with its weights.
  absl::Status Read(uint64_t job, WeightsAssembly* assembly) {
    const auto stub =
        v1::ParameterService::NewStub(CreateDataChannel(address_, kLargestPageElements));
    absl::Duration start = Now();
    Backoff backoff(Backoff::Options(), static_cast<uint64_t>(absl::ToUnixNanos(absl::Now())));
    while (true) {
      const size_t pages = taken_.size();
      const CallOutcome outcome = ReadOnce(stub.get(), job, assembly);
      RETURN_IF_ERROR(outcome.stop);
      if (taken_.size() > pages) {
        start = Now();
        backoff.Reset();
      }
      const bool may_repeat =
          (absl::IsUnavailable(outcome.rpc) && taken_.empty()) || IsBrokenOffForRoom(outcome.rpc);
      const bool again = may_repeat && Now() - start < options_.connect_deadline;
      if (!again) return WithContext(outcome.rpc, absl::StrCat("server ", address_));
      absl::SleepFor(backoff.Next());
      RETURN_IF_ERROR(options_.check());
    }
  }

 private:
  static absl::Duration Now() { return Clock::Real().Steady(); }

  absl::Status Idle() {
    RETURN_IF_ERROR(options_.check());
    if (Now() - last_page_ < options_.page_deadline) return absl::OkStatus();
    return absl::DeadlineExceededError(absl::StrCat(
        "server ", address_, ": nothing came for ", HumanDuration(options_.page_deadline),
        " after ", taken_.size(), taken_.size() == 1 ? " page" : " pages"));
  }

  CallOutcome ReadOnce(v1::ParameterService::Stub* stub, uint64_t job, WeightsAssembly* assembly) {
    v1::ReadWeightsRequest request;
    request.set_job(job);
    grpc::ClientContext context;
    SetTimeout(options_.server_deadline, &context);
    const auto reader = stub->PrepareAsyncReadWeights(&context, request, queue_.queue());
    last_page_ = Now();
    CallOutcome outcome;
    bool ok = false;
    reader->StartCall(this);
    outcome.stop = queue_.Await(&context, &ok);
    // Those of earlier tries come again.
    const std::set<PageKey> taken_before = taken_;
    v1::TensorFrame frame;
    while (ok && outcome.stop.ok()) {
      reader->Read(&frame, this);
      outcome.stop = queue_.Await(&context, &ok);
      if (!ok || !outcome.stop.ok()) break;
      last_page_ = Now();
      const PageKey key = {frame.header().step(), frame.header().segment(),
                           frame.header().first_element(), frame.header().element_count()};
      if (taken_before.count(key) > 0) continue;
      outcome.stop = assembly->Add(frame, address_);
      if (outcome.stop.ok()) taken_.insert(key);
    }
    if (!outcome.stop.ok()) {
      context.TryCancel();
      return outcome;
    }
    grpc::Status status;
    reader->Finish(&status, this);
    outcome.stop = queue_.Await(&context, &ok);
    outcome.rpc = FromGrpcStatus(status);
    return outcome;
  }

  const std::string address_;
  const WeightsReaderOptions& options_;
  CallQueue queue_;
  absl::Duration last_page_;
  std::set<PageKey> taken_;
};

}  // namespace

absl::StatusOr<WeightsAssembly> ReadWeights(const v1::Job& job,
                                            const WeightsReaderOptions& options) {
  if (!job.weights_available()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no server holds weights of job ", job.id(), ", which is ", StateName(job.state()),
        "; servers keep those of the last few jobs that ended well"));
  }
  ASSIGN_OR_RETURN(WeightsAssembly assembly, WeightsAssembly::Create(job.id(), job.layout()),
                   "job %d", job.id());
  for (const std::string& address : job.server_address()) {
    RETURN_IF_ERROR(ServerReader(address, options).Read(job.id(), &assembly));
  }
  RETURN_IF_ERROR(assembly.CheckComplete());
  return assembly;
}

}  // namespace sangam
