// How fast activations go from worker to worker, beside gRPC itself.
//
//   bazel run -c opt //tests/bench:flow_bench [-- PAIRS [MEBIBYTES]]
//
// Two layouts, each with both ends in this process, over TCP on loopback, measured in turn (A B A B
// ...) so that both see the same machine:
//
//   A  Sangam: two GrpcPipelineLinks. One lane reserves and sends, the other one receives and lets
//      go; the link copies each tensor to its place and answers it with TAKEN.
//   B  gRPC: a bidirectional stream of byte buffers on completion queues, one thread each side,
//      written against gRPC's own interface. Messages have the same length and as many may be on
//      their way; each is dropped and answered with a short one.
//
// GB/s count the tensors' bytes. Prints medians, least and most; asserts nothing.
#include <grpc/grpc.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/plan/page_map.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/data_channel.h"
#include "common/tensor/buffer.h"
#include "common/tensor/frame_codec.h"
#include "common/tensor/slices.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "tests/testing/flow_plan.h"
#include "worker/core/flow_tag.h"
#include "worker/pipeline_server.h"
#include "worker/runtime/pipeline_link.h"

namespace sangam {
namespace {

constexpr uint32_t kCredits = 8;
constexpr absl::Duration kPatience = absl::Minutes(2);

// ---- Layout A ----

class SangamPair {
 public:
  explicit SangamPair(uint64_t elements) : elements_(elements) {
    testing::FlowPlan flow;
    flow.columns = {elements};
    flow.credits = kCredits;
    flow.micro_batches = 1;
    flow.shares = 1;
    for (auto& server : servers_) {
      server = PipelineServer::Start({}).value();
      flow.addresses.push_back(server->address());
    }
    plan_ = testing::MakePlan(flow);
    for (uint32_t w = 0; w < 2; ++w) {
      PipelineLinkOptions options;
      options.plan = &plan_;
      options.worker = w;
      options.max_rows = 1;
      links_[w] = servers_[w]->Factory()(options).value();
    }
    for (const auto& link : links_) SANGAM_CHECK(link->Start(nullptr).ok());
  }
  ~SangamPair() {
    std::thread other([this] { SANGAM_CHECK(links_[0]->Close(kPatience).ok()); });
    SANGAM_CHECK(links_[1]->Close(kPatience).ok());
    other.join();
  }

  void Run(uint64_t tensors) {
    const uint64_t end = step_ + tensors;
    std::thread receiver([this, step = step_, end]() mutable {
      for (; step < end; ++step) {
        SANGAM_CHECK(links_[1]->Receive(0, Tag(step), {1, elements_}, kPatience).ok());
      }
    });
    for (; step_ < end; ++step_) {
      absl::StatusOr<FloatBuffer> buffer =
          links_[0]->Reserve(0, 0, FlowDirection::kForward, kPatience);
      SANGAM_CHECK(buffer.ok());
      SANGAM_CHECK(links_[0]->Send(0, Tag(step_), {1, elements_}, *std::move(buffer)).ok());
    }
    receiver.join();
  }

 private:
  static FlowTag Tag(uint64_t step) { return {step, false, 0, 0, FlowDirection::kForward}; }

  const uint64_t elements_;
  v1::Plan plan_;
  std::unique_ptr<PipelineServer> servers_[2];
  std::unique_ptr<PipelineLink> links_[2];
  uint64_t step_ = 0;
};

// ---- Layout B ----

enum RawTag : intptr_t { kStarted = 1, kRead, kWritten, kFinished };

void* Tag(RawTag tag) { return reinterpret_cast<void*>(tag); }

// A message behind a header such as frames have.
grpc::ByteBuffer RawMessage(const FloatBuffer& elements) {
  v1::FrameHeader header;
  header.set_kind(elements.size() > 0 ? v1::FRAME_KIND_ACTIVATION : v1::FRAME_KIND_TAKEN);
  header.set_job(7);
  header.set_step(1);
  header.set_element_count(elements.size());
  const SlicePayload payload =
      elements.size() > 0 ? SlicePayload::FromFloats(elements, 0, elements.size()) : SlicePayload();
  return ToByteBuffer(EncodeFramePrefix(header, payload.size()), payload);
}

// Answers every message with a short one, until the client half-closes.
class RawServer {
 public:
  RawServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    ConfigureDataServer(&builder);
    builder.RegisterAsyncGenericService(&service_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    SANGAM_CHECK(server_ != nullptr && port_ != 0);
    service_.RequestCall(&context_, &stream_, queue_.get(), queue_.get(), Tag(kStarted));
    thread_ = std::thread([this] { Serve(); });
  }
  ~RawServer() {
    thread_.join();
    server_->Shutdown();
    queue_->Shutdown();
    void* tag;
    bool ok;
    while (queue_->Next(&tag, &ok)) {
    }
  }
  int port() const { return port_; }

 private:
  void Serve() {
    void* tag;
    bool ok;
    uint64_t owed = 0;
    bool writing = false;
    while (queue_->Next(&tag, &ok)) {
      switch (static_cast<RawTag>(reinterpret_cast<intptr_t>(tag))) {
        case kStarted:
          if (!ok) return;
          stream_.Read(&incoming_, Tag(kRead));
          break;
        case kRead:
          if (!ok) {
            stream_.Finish(grpc::Status::OK, Tag(kFinished));
            break;
          }
          incoming_.Clear();
          stream_.Read(&incoming_, Tag(kRead));
          ++owed;
          break;
        case kWritten:
          writing = false;
          break;
        case kFinished:
          return;
      }
      if (owed > 0 && !writing) {
        --owed;
        writing = true;
        stream_.Write(RawMessage(FloatBuffer()), Tag(kWritten));
      }
    }
  }

  int port_ = 0;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  grpc::ByteBuffer incoming_;
  std::thread thread_;
};

class RawPair {
 public:
  explicit RawPair(uint64_t elements) {
    for (uint32_t i = 0; i < kCredits; ++i) {
      buffers_.push_back(FloatBuffer::Allocate(elements).value());
    }
    const auto channel =
        CreateDataChannel(absl::StrCat("127.0.0.1:", server_.port()), kPageElements);
    stream_ = grpc::GenericStub(channel).PrepareCall(&context_, "/raw/stream", &queue_);
    stream_->StartCall(Tag(kStarted));
    SANGAM_CHECK(Next() == kStarted);
    stream_->Read(&incoming_, Tag(kRead));
  }
  ~RawPair() {
    stream_->WritesDone(Tag(kWritten));
    void* tag;
    bool ok;
    // The half-close, and the Read that ends with the stream.
    for (int i = 0; i < 2; ++i) SANGAM_CHECK(queue_.Next(&tag, &ok));
    grpc::Status status;
    stream_->Finish(&status, Tag(kFinished));
    SANGAM_CHECK(Next() == kFinished && status.ok());
  }

  void Run(uint64_t messages) {
    uint64_t sent = 0;
    uint64_t answered = 0;
    bool writing = false;
    while (answered < messages) {
      if (!writing && sent < messages && sent < answered + kCredits) {
        writing = true;
        stream_->Write(RawMessage(buffers_[sent++ % kCredits]), Tag(kWritten));
      }
      if (Next() == kWritten) {
        writing = false;
      } else {
        ++answered;
        incoming_.Clear();
        stream_->Read(&incoming_, Tag(kRead));
      }
    }
    if (writing) SANGAM_CHECK(Next() == kWritten);
  }

 private:
  RawTag Next() {
    void* tag;
    bool ok;
    SANGAM_CHECK(queue_.Next(&tag, &ok) && ok);
    return static_cast<RawTag>(reinterpret_cast<intptr_t>(tag));
  }

  RawServer server_;
  std::vector<FloatBuffer> buffers_;
  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::ByteBuffer incoming_;
};

// ---- Measuring ----

void Print(const char* name, std::vector<double> values, const char* unit) {
  std::sort(values.begin(), values.end());
  std::printf("  %-42s %7.3f [%.3f .. %.3f] %s\n", name, values[values.size() / 2], values.front(),
              values.back(), unit);
}

void Measure(uint64_t bytes, uint64_t pairs, uint64_t mebibytes) {
  const uint64_t tensors = (mebibytes << 20) / bytes;
  SangamPair sangam(bytes / sizeof(float));
  RawPair raw(bytes / sizeof(float));
  const auto goodput = [tensors, bytes](const std::function<void(uint64_t)>& run) {
    const absl::Duration begin = Clock::Real().Steady();
    run(tensors);
    const double seconds = absl::ToDoubleSeconds(Clock::Real().Steady() - begin);
    return 1e-9 * static_cast<double>(tensors * bytes) / seconds;
  };
  const auto run_sangam = [&sangam](uint64_t n) { sangam.Run(n); };
  const auto run_raw = [&raw](uint64_t n) { raw.Run(n); };
  goodput(run_sangam);
  goodput(run_raw);
  std::vector<double> a;
  std::vector<double> b;
  std::vector<double> ratios;
  for (uint64_t i = 0; i < pairs; ++i) {
    a.push_back(goodput(run_sangam));
    b.push_back(goodput(run_raw));
    ratios.push_back(a.back() / b.back());
  }
  std::printf("%llu tensors of %llu KiB, %llu pairs\n", static_cast<unsigned long long>(tensors),
              static_cast<unsigned long long>(bytes >> 10), static_cast<unsigned long long>(pairs));
  Print("A Sangam, two links", a, "GB/s");
  Print("B raw gRPC stream of byte buffers", b, "GB/s");
  Print("A / B, of each pair", ratios, "");
}

uint64_t Argument(int argc, char** argv, int index, uint64_t otherwise) {
  uint64_t value = otherwise;
  if (index < argc && (!absl::SimpleAtoi(argv[index], &value) || value == 0)) {
    std::fprintf(stderr, "flow_bench: found '%s', expected a number > 0\n", argv[index]);
    std::exit(2);
  }
  return value;
}

int Main(int argc, char** argv) {
  SANGAM_CHECK(SetLogLevel("warning").ok());
  // For good: the end of the last object of gRPC can wait 10 s for a poller of its own.
  grpc_init();
  const uint64_t pairs = Argument(argc, argv, 1, 9);
  const uint64_t mebibytes = Argument(argc, argv, 2, 256);
  std::printf("sangam %s, %u threads; median [least .. most]\n", kVersion,
              std::thread::hardware_concurrency());
  for (const uint64_t kib : {1024, 64}) Measure(kib << 10, pairs, mebibytes);
  return 0;
}

}  // namespace
}  // namespace sangam

int main(int argc, char** argv) { return sangam::Main(argc, argv); }
