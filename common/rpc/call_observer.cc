#include "common/rpc/call_observer.h"

#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/metrics/call_counts.h"
#include "common/rpc/call_places.h"

namespace sangam {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerInterceptorFactoryInterface;
using grpc::experimental::ServerRpcInfo;

// Lives as long as its call. gRPC calls it for each operation; all but the last cost one look.
class CallObserver final : public Interceptor {
 public:
  CallObserver(CallCounts* calls, CallPlaces* served, ServerRpcInfo* info)
      : calls_(calls),
        served_(*served),
        context_(*info->server_context()),
        method_(info->method()),
        begin_(Clock::Real().Steady()) {}
  CallObserver(const CallObserver&) = delete;
  CallObserver& operator=(const CallObserver&) = delete;
  // Of a call whose client has gone, no status may be sent.
  ~CallObserver() override {
    if (calls_ != nullptr) calls_->Add(method_, code_, Clock::Real().Steady() - begin_);
  }

  void Intercept(InterceptorBatchMethods* methods) override {
    // At its birth the call has no peer yet.
    if (!place_.has_value()) place_.emplace(&served_, context_.peer());
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      code_ = absl::StatusCodeToString(
          static_cast<absl::StatusCode>(methods->GetSendStatus().error_code()));
    }
    methods->Proceed();
  }

 private:
  CallCounts* const calls_;
  CallPlaces& served_;
  const grpc::ServerContextBase& context_;
  std::optional<CallPlaces::Place> place_;
  const std::string method_;
  const absl::Duration begin_;
  std::string code_ = "CANCELLED";
};

class Factory final : public ServerInterceptorFactoryInterface {
 public:
  Factory(CallCounts* calls, CallPlaces* served) : calls_(calls), served_(served) {}
  Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    const bool stream = info->type() == ServerRpcInfo::Type::BIDI_STREAMING;
    if (stream && absl::StartsWith(info->method(), "/sangam.")) return nullptr;
    return new CallObserver(calls_, served_, info);
  }

 private:
  CallCounts* const calls_;
  CallPlaces* const served_;
};

}  // namespace

void ObserveCalls(CallCounts* calls, CallPlaces* served, grpc::ServerBuilder* builder) {
  std::vector<std::unique_ptr<ServerInterceptorFactoryInterface>> factories;
  factories.push_back(std::make_unique<Factory>(calls, served));
  builder->experimental().SetInterceptorCreators(std::move(factories));
}

}  // namespace sangam
