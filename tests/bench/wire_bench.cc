// How fast weights go to a worker and gradients come back, beside gRPC itself.
//
//   bazel run -c opt //tests/bench:wire_bench [-- PAIRS [STEPS [MEBIBYTES]]]
//
// Two layouts of two processes each, over TCP on loopback, measured in turn (A B A B ...) so that
// both see the same machine:
//
//   A  Sangam: a GrpcParameterLink, and a ParameterService with a shard that sums and applies SGD.
//      The worker copies the weights to their place, as a trainer does.
//   B  gRPC: a bidirectional stream of byte buffers on completion queues, one thread each side,
//      written against gRPC's own interface. Messages have the same length and come from memory of
//      the same size; each is answered by one; whoever receives drops it.
//
// A step is one push and one pull of all weights; the next push of a piece follows its pull. GB/s
// count the payload of both directions. Prints medians, least and most; asserts nothing.
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/version.h"
#include "common/plan/page_map.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/data_channel.h"
#include "common/tensor/buffer.h"
#include "common/tensor/frame_codec.h"
#include "common/tensor/slices.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/runtime/shard_table.h"
#include "tests/testing/parameter_server.h"
#include "tests/testing/wire_job.h"
#include "worker/rpc/grpc_parameter_link.h"

namespace sangam {
namespace {

constexpr uint64_t kPageBytes = kPageElements * sizeof(float);
constexpr absl::Duration kPatience = absl::Minutes(2);

// Eight segments, so that pushes and pulls of one step overlap as in training.
WireJob BenchJob(uint64_t pages) {
  WireJob job;
  job.page_elements = kPageElements;
  job.segments.clear();
  for (uint64_t s = 0; s < 8; ++s) {
    const uint64_t in_segment = (s + 1) * pages / 8 - s * pages / 8;
    if (in_segment > 0) job.segments.push_back(in_segment * kPageElements);
  }
  // So small that weights stay finite and normal over any number of steps.
  job.learning_rate = 1e-3f;
  return job;
}

FloatBuffer FilledBuffer(uint64_t elements) {
  FloatBuffer buffer = FloatBuffer::Allocate(elements).value();
  for (uint64_t i = 0; i < elements; ++i) buffer.data()[i] = 1e-3f * static_cast<float>(i % 1000);
  return buffer;
}

// ---- Layout A ----

// Copies weights to their place and counts pages.
class StoringReceiver : public WeightsReceiver {
 public:
  explicit StoringReceiver(const WireJob& job) {
    for (const uint64_t elements : job.segments) {
      store_.push_back(FilledBuffer(elements));
      pages_.push_back(NumPages(elements, job.page_elements));
      arrived_.push_back(0);
    }
  }

  absl::Status OnWeights(const v1::FrameHeader& header, const SlicePayload& elements) override {
    elements.CopyTo(store_[header.segment()].data() + header.first_element());
    MutexLock lock(&mutex_);
    if (++arrived_[header.segment()] % pages_[header.segment()] == 0) changed_.SignalAll();
    return absl::OkStatus();
  }

  void OnLinkFailed(const absl::Status& status) override {
    std::fprintf(stderr, "wire_bench: the link failed: %s\n", status.ToString().c_str());
    std::exit(1);
  }

  // Until all pages of the segment have come `times` times.
  void WaitFor(uint32_t segment, uint64_t times) {
    const absl::Duration until = Clock::Real().Steady() + kPatience;
    MutexLock lock(&mutex_);
    while (arrived_[segment] < times * pages_[segment]) {
      SANGAM_CHECK(Clock::Real().Steady() < until);
      changed_.WaitFor(&mutex_, absl::Seconds(1));
    }
  }

 private:
  std::vector<FloatBuffer> store_;
  std::vector<uint64_t> pages_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<uint64_t> arrived_ ABSL_GUARDED_BY(mutex_);
};

class SangamWorker {
 public:
  SangamWorker(uint64_t pages, int port) : job_(BenchJob(pages)), receiver_(job_) {
    job_.servers = {absl::StrCat("127.0.0.1:", port)};
    link_ = GrpcParameterLink::Create(MakeAssignment(job_).plan(), 0, {}).value();
    std::vector<uint32_t> segments;
    for (const uint64_t elements : job_.segments) {
      segments.push_back(static_cast<uint32_t>(segments.size()));
      gradients_.push_back(FilledBuffer(elements));
    }
    SANGAM_CHECK(link_->Start(segments, 0, &receiver_).ok());
  }
  ~SangamWorker() { SANGAM_CHECK(link_->Close(absl::Seconds(10)).ok()); }

  void Run(uint64_t steps) {
    const uint64_t end = step_ + steps;
    for (; step_ < end; ++step_) {
      for (uint32_t s = 0; s < gradients_.size(); ++s) {
        receiver_.WaitFor(s, step_ + 1);
        SANGAM_CHECK(link_->PushGradient(step_, s, 0, {0, 1}, 100, gradients_[s]).ok());
      }
    }
    for (uint32_t s = 0; s < gradients_.size(); ++s) receiver_.WaitFor(s, step_ + 1);
  }

 private:
  WireJob job_;
  StoringReceiver receiver_;
  std::vector<FloatBuffer> gradients_;
  std::unique_ptr<ParameterLink> link_;
  uint64_t step_ = 0;
};

// ---- Layout B ----

// The messages that one side sends, in turn: pages of a memory as large as the weights, each behind
// a header such as frames have.
class RawMessages {
 public:
  explicit RawMessages(uint64_t pages)
      : pages_(pages), memory_(FilledBuffer(pages * kPageElements)) {
    header_.set_job(7);
    header_.set_generation(1);
    header_.set_element_count(kPageElements);
    header_.set_samples(100);
    header_.set_encoding(v1::ENCODING_FP32);
    header_.set_kind(v1::FRAME_KIND_WEIGHTS);
  }

  grpc::ByteBuffer Next() {
    header_.set_first_element(next_ % pages_ * kPageElements);
    header_.set_step(next_++ / pages_);
    const SlicePayload payload =
        SlicePayload::FromFloats(memory_, header_.first_element(), kPageElements);
    return ToByteBuffer(EncodeFramePrefix(header_, payload.size()), payload);
  }

 private:
  const uint64_t pages_;
  const FloatBuffer memory_;
  v1::FrameHeader header_;
  uint64_t next_ = 0;
};

enum RawTag : intptr_t { kStarted = 1, kRead, kWritten, kFinished };

// Answers every message with one, until the client half-closes.
class RawServer {
 public:
  RawServer(uint64_t pages) : messages_(pages) {
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
  static void* Tag(RawTag tag) { return reinterpret_cast<void*>(tag); }

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
        stream_.Write(messages_.Next(), Tag(kWritten));
      }
    }
  }

  RawMessages messages_;
  int port_ = 0;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  grpc::ByteBuffer incoming_;
  std::thread thread_;
};

class RawClient {
 public:
  RawClient(uint64_t pages, int port) : pages_(pages), messages_(pages) {
    const auto channel = CreateDataChannel(absl::StrCat("127.0.0.1:", port), kPageElements);
    stream_ = grpc::GenericStub(channel).PrepareCall(&context_, "/raw/stream", &queue_);
    stream_->StartCall(Tag(kStarted));
    SANGAM_CHECK(Next() == kStarted);
    stream_->Read(&incoming_, Tag(kRead));
  }
  ~RawClient() {
    stream_->WritesDone(Tag(kWritten));
    void* tag;
    bool ok;
    // The half-close, and the Read that ends with the stream.
    for (int i = 0; i < 2; ++i) SANGAM_CHECK(queue_.Next(&tag, &ok));
    grpc::Status status;
    stream_->Finish(&status, Tag(kFinished));
    SANGAM_CHECK(Next() == kFinished && status.ok());
  }

  // A message may be on its way for every page.
  void Run(uint64_t steps) {
    const uint64_t total = steps * pages_;
    uint64_t sent = 0;
    uint64_t received = 0;
    bool writing = false;
    while (received < total) {
      if (!writing && sent < total && sent < received + pages_) {
        writing = true;
        ++sent;
        stream_->Write(messages_.Next(), Tag(kWritten));
      }
      if (Next() == kWritten) {
        writing = false;
      } else {
        ++received;
        incoming_.Clear();
        stream_->Read(&incoming_, Tag(kRead));
      }
    }
    if (writing) SANGAM_CHECK(Next() == kWritten);
  }

 private:
  static void* Tag(RawTag tag) { return reinterpret_cast<void*>(tag); }

  RawTag Next() {
    void* tag;
    bool ok;
    SANGAM_CHECK(queue_.Next(&tag, &ok) && ok);
    return static_cast<RawTag>(reinterpret_cast<intptr_t>(tag));
  }

  const uint64_t pages_;
  RawMessages messages_;
  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::ByteBuffer incoming_;
};

// ---- Processes ----

// Says the port on standard output and serves until standard input is closed.
int Serve(const std::string& layout, uint64_t pages) {
  SANGAM_CHECK(SetLogLevel("warning").ok());
  const auto serve_until_closed = [](int port) {
    std::printf("%d\n", port);
    std::fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
  };
  if (layout == "raw") {
    RawServer server(pages);
    serve_until_closed(server.port());
  } else {
    ShardTable table("server-0");
    table.Reconcile({MakeAssignment(BenchJob(pages))});
    table.Reconcile({Running(MakeAssignment(BenchJob(pages)))});
    const auto server =
        ParameterServer::Start({}, [&table](uint64_t job) { return table.Find(job); });
    SANGAM_CHECK(server != nullptr);
    serve_until_closed(server->port());
  }
  return 0;
}

// This program as a server in a process of its own. Started before this process touches gRPC, which
// does not survive a fork.
class ServerProcess {
 public:
  ServerProcess(const std::string& layout, uint64_t pages) {
    int to_child[2];
    int from_child[2];
    SANGAM_CHECK(pipe(to_child) == 0 && pipe(from_child) == 0);
    const std::string pages_text = absl::StrCat(pages);
    pid_ = fork();
    SANGAM_CHECK(pid_ >= 0);
    if (pid_ == 0) {
      dup2(to_child[0], STDIN_FILENO);
      dup2(from_child[1], STDOUT_FILENO);
      for (const int end : {to_child[0], to_child[1], from_child[0], from_child[1]}) close(end);
      execl("/proc/self/exe", "wire_bench", "--serve", layout.c_str(), pages_text.c_str(), nullptr);
      _exit(127);
    }
    close(to_child[0]);
    close(from_child[1]);
    input_ = to_child[1];
    std::string line;
    char byte;
    while (read(from_child[0], &byte, 1) == 1 && byte != '\n') line.push_back(byte);
    close(from_child[0]);
    SANGAM_CHECK(absl::SimpleAtoi(line, &port_));
  }
  ~ServerProcess() {
    close(input_);
    int status = 0;
    waitpid(pid_, &status, 0);
  }
  int port() const { return port_; }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  int port_ = 0;
};

std::string CpuName() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line;
  while (std::getline(cpuinfo, line)) {
    if (absl::StartsWith(line, "model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown CPU";
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Print(const char* name, const std::vector<double>& values, const char* unit) {
  std::printf("%-44s median %6.3f  min %6.3f  max %6.3f %s\n", name, Median(values),
              *std::min_element(values.begin(), values.end()),
              *std::max_element(values.begin(), values.end()), unit);
}

void Measure(uint64_t pairs, uint64_t steps, uint64_t pages) {
  const ServerProcess sangam_server("sangam", pages);
  const ServerProcess raw_server("raw", pages);
  SangamWorker sangam(pages, sangam_server.port());
  RawClient raw(pages, raw_server.port());
  const auto goodput = [steps, pages](const std::function<void(uint64_t)>& run) {
    const absl::Duration begin = Clock::Real().Steady();
    run(steps);
    const double seconds = absl::ToDoubleSeconds(Clock::Real().Steady() - begin);
    return 2e-9 * static_cast<double>(steps * pages * kPageBytes) / seconds;
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
  std::printf("sangam %s on %s, %u threads\n", kVersion, CpuName().c_str(),
              std::thread::hardware_concurrency());
  std::printf("push + pull of %llu MiB, messages of 1 MiB, %llu pairs of %llu steps\n",
              static_cast<unsigned long long>(pages), static_cast<unsigned long long>(pairs),
              static_cast<unsigned long long>(steps));
  Print("A Sangam, link and service with SGD", a, "GB/s");
  Print("B raw gRPC stream of byte buffers", b, "GB/s");
  Print("A / B, of each pair", ratios, "");
  std::printf("median A / median B: %.3f\n", Median(a) / Median(b));
}

uint64_t Argument(int argc, char** argv, int index, uint64_t otherwise) {
  uint64_t value = otherwise;
  if (index < argc && (!absl::SimpleAtoi(argv[index], &value) || value == 0)) {
    std::fprintf(stderr, "wire_bench: found '%s', expected a number > 0\n", argv[index]);
    std::exit(2);
  }
  return value;
}

int Main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--serve") {
    return Serve(argv[2], Argument(argc, argv, 3, 1));
  }
  SANGAM_CHECK(SetLogLevel("warning").ok());
  Measure(Argument(argc, argv, 1, 9), Argument(argc, argv, 2, 10), Argument(argc, argv, 3, 64));
  return 0;
}

}  // namespace
}  // namespace sangam

int main(int argc, char** argv) { return sangam::Main(argc, argv); }
