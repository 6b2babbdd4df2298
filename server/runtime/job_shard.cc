#include "server/runtime/job_shard.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/model/initializer.h"
#include "common/plan/page_map.h"
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/core/parameter_page.h"
#include "server/core/shard_layout.h"
#include "server/runtime/parameter_shard.h"
#include "server/runtime/shared_page.h"

namespace sangam {

JobShard::JobShard(uint64_t job, ShardLayout layout)
    : job_(job), layout_(std::move(layout)), memory_bytes_(layout_.memory_bytes) {}

absl::StatusOr<std::shared_ptr<JobShard>> JobShard::Create(const v1::Assignment& assignment,
                                                           ShardLayout layout) {
  std::shared_ptr<JobShard> shard(new JobShard(assignment.plan().job(), std::move(layout)));
  RETURN_IF_ERROR(shard->AllocatePages(assignment), "job %d", assignment.plan().job());
  MutexLock lock(&shard->mutex_);
  shard->peers_ = PeersOf(assignment.plan());
  return shard;
}

absl::Status JobShard::AllocatePages(const v1::Assignment& assignment) {
  const v1::Plan& plan = assignment.plan();
  pages_.resize(layout_.map.num_segments());
  for (uint32_t s = 0; s < layout_.map.num_segments(); ++s) {
    pages_[s].resize(layout_.map.pages(s).size());
  }
  for (const PageLayout& layout : layout_.pages) {
    ASSIGN_OR_RETURN(FloatBuffer initial, FloatBuffer::Allocate(layout.element_count));
    FillInitialWeights(plan.layout().segment(static_cast<int>(layout.segment)),
                       assignment.spec().seed(), layout.first_element, layout.element_count,
                       initial.data());
    ParameterPage::Options options;
    options.segment = layout.segment;
    options.first_element = layout.first_element;
    options.element_count = layout.element_count;
    options.generation = plan.generation();
    options.shares = layout_.shares;
    options.uses = layout.uses;
    options.ranges = layout.ranges;
    ASSIGN_OR_RETURN(
        ParameterPage page,
        ParameterPage::Create(std::move(options), layout_.optimizer, std::move(initial)));
    const uint64_t index = layout.first_element / layout_.map.page_elements();
    pages_[layout.segment][index] = std::make_unique<SharedPage>(job_, std::move(page));
  }
  return absl::OkStatus();
}

JobShard::Peers JobShard::PeersOf(const v1::Plan& plan) {
  Peers peers;
  peers.generation = plan.generation();
  peers.schema_hash = plan.schema_hash();
  for (const v1::WorkerPlan& worker : plan.worker()) {
    peers.worker.push_back({worker.name(), worker.incarnation()});
  }
  return peers;
}

template <typename Visit>
void JobShard::ForEachPage(const Visit& visit) const {
  for (const auto& segment : pages_) {
    for (const std::unique_ptr<SharedPage>& page : segment) {
      if (page != nullptr) visit(*page);
    }
  }
}

absl::Status JobShard::CheckJob(const v1::FrameHeader& header) const {
  if (dropped_) {
    return absl::NotFoundError(
        absl::StrCat("job ", job_, ": this server does not hold it any more"));
  }
  if (header.job() != job_) {
    return absl::InvalidArgumentError(
        absl::StrCat("job: found ", header.job(), " on a stream of job ", job_));
  }
  return absl::OkStatus();
}

absl::Status JobShard::CheckHello(const v1::FrameHeader& header, const v1::StreamHello& hello) {
  RETURN_IF_ERROR(CheckJob(header));
  if (hello.protocol_version() != kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat("protocol version: worker '", hello.worker(),
                                                      "' has ", hello.protocol_version(),
                                                      ", this server has ", kProtocolVersion));
  }
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckGeneration(header.generation(), peers_.generation));
  if (header.source() >= peers_.worker.size()) {
    return absl::InvalidArgumentError(absl::StrCat("source: found ", header.source(),
                                                   ", expected less than ", peers_.worker.size()));
  }
  const Peers::Worker& expected = peers_.worker[header.source()];
  if (hello.worker() != expected.name) {
    return absl::InvalidArgumentError(absl::StrCat("worker: found '", hello.worker(),
                                                   "' as source ", header.source(),
                                                   ", the plan has '", expected.name, "'"));
  }
  if (hello.incarnation() != expected.incarnation) {
    return absl::AbortedError(absl::StrCat("incarnation of worker '", hello.worker(), "': found ",
                                           hello.incarnation(), ", the plan has ",
                                           expected.incarnation));
  }
  if (hello.schema_hash() != peers_.schema_hash) {
    return absl::FailedPreconditionError(absl::StrCat("schema of job ", job_, ": worker '",
                                                      hello.worker(), "' has ", hello.schema_hash(),
                                                      ", this server has ", peers_.schema_hash));
  }
  return absl::OkStatus();
}

absl::Status JobShard::Subscribe(const v1::FrameHeader& header,
                                 const std::shared_ptr<WeightsSink>& sink) {
  RETURN_IF_ERROR(CheckJob(header));
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckGeneration(header.generation(), peers_.generation));
  }
  ASSIGN_OR_RETURN(const uint32_t first,
                   layout_.map.PageAt(header.segment(), header.first_element()));
  const std::vector<PageRange>& ranges = layout_.map.pages(header.segment());
  uint64_t covered = 0;
  uint32_t last = first;
  while (last < ranges.size() && covered < header.element_count()) {
    covered += ranges[last++].element_count;
  }
  if (covered != header.element_count() || covered == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "element_count of segment ", header.segment(), " from ", header.first_element(), ": found ",
        header.element_count(), ", expected whole pages, such as ", covered));
  }
  for (uint32_t p = first; p < last; ++p) {
    SharedPage* page = pages_[header.segment()][p].get();
    if (page == nullptr) continue;
    RETURN_IF_ERROR(page->Subscribe(header.generation(), header.step(), sink));
  }
  return absl::OkStatus();
}

void JobShard::Unsubscribe(const WeightsSink* sink) {
  ForEachPage([sink](SharedPage& page) { page.Unsubscribe(sink); });
}

absl::StatusOr<SharedPage*> JobShard::FindPage(const v1::FrameHeader& header) const {
  ASSIGN_OR_RETURN(const uint32_t index,
                   layout_.map.PageAt(header.segment(), header.first_element()));
  const PageRange& range = layout_.map.pages(header.segment())[index];
  if (header.element_count() != range.element_count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "element_count of segment ", header.segment(), " from ", header.first_element(), ": found ",
        header.element_count(), ", expected the page's ", range.element_count));
  }
  SharedPage* page = pages_[header.segment()][index].get();
  if (page == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("segment ", header.segment(), ", page from ", header.first_element(),
                     ": lies on server ", range.server, " of the plan, this is ", layout_.server));
  }
  return page;
}

absl::Status JobShard::AddGradient(const v1::FrameHeader& header, const SlicePayload& elements) {
  RETURN_IF_ERROR(CheckJob(header));
  if (header.encoding() != v1::ENCODING_FP32) {
    return absl::InvalidArgumentError(absl::StrCat("encoding: found ", header.encoding(),
                                                   ", expected ", v1::ENCODING_FP32, " (FP32)"));
  }
  ASSIGN_OR_RETURN(SharedPage * page, FindPage(header));
  GradientKey key;
  key.generation = header.generation();
  key.step = header.step();
  key.span = {header.span_begin(), header.span_end()};
  key.samples = header.samples();
  key.use = header.use();
  return page->Add(key, elements);
}

std::vector<PageWeights> JobShard::ReadWeights() {
  std::vector<PageWeights> all;
  all.reserve(layout_.pages.size());
  ForEachPage([&all](const SharedPage& page) { all.push_back(page.Read()); });
  return all;
}

absl::Status JobShard::BeginGeneration(const v1::Assignment& assignment,
                                       const ShardLayout& layout) {
  Peers peers = PeersOf(assignment.plan());
  {
    MutexLock lock(&mutex_);
    if (peers.schema_hash != peers_.schema_hash || layout.shares != layout_.shares ||
        !(layout.pages == layout_.pages)) {
      return absl::UnimplementedError(absl::StrCat(
          "job ", job_, ", generation ", peers.generation,
          ": the plan changes the schema or moves pages between servers, which is not supported"));
    }
    peers_ = std::move(peers);
  }
  ForEachPage(
      [&assignment](SharedPage& page) { page.BeginGeneration(assignment.plan().generation()); });
  return absl::OkStatus();
}

void JobShard::Reduce() {
  ForEachPage([](SharedPage& page) { page.Reduce(); });
  uint64_t elements = 0;
  for (const PageLayout& page : layout_.pages) elements += page.element_count;
  memory_bytes_ = elements * sizeof(float);
}

void JobShard::Drop() {
  dropped_ = true;
  // Streams and shard hold one another; the shard lets go first.
  ForEachPage([](SharedPage& page) { page.UnsubscribeAll(); });
}

ParameterPage::Ignored JobShard::ignored() const {
  ParameterPage::Ignored sum;
  ForEachPage([&sum](const SharedPage& page) {
    const ParameterPage::Ignored ignored = page.ignored();
    sum.covered += ignored.covered;
    sum.finished += ignored.finished;
  });
  return sum;
}

}  // namespace sangam
