#include "server/runtime/job_shard.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/model/initializer.h"
#include "common/model/learning_rate.h"
#include "common/plan/page_map.h"
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "proto/cluster_service.pb.h"
#include "proto/model.pb.h"
#include "proto/parameter_service.pb.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/core/parameter_page.h"
#include "server/core/shard_layout.h"
#include "server/core/step_rules.h"
#include "server/runtime/parameter_shard.h"
#include "server/runtime/shared_page.h"
#include "server/runtime/update_pool.h"
#include "server/runtime/vote_exchange.h"
#include "server/runtime/vote_link.h"

namespace sangam {

namespace {

// Of the blocks that compute with a segment, in the order of their uses.
std::vector<std::string> BlockNames(const v1::ModelLayout& layout, uint32_t segment) {
  const v1::SegmentLayout& of = layout.segment(static_cast<int>(segment));
  std::vector<uint32_t> uses(of.use().begin(), of.use().end());
  if (uses.empty()) uses.push_back(of.block());
  std::vector<std::string> names;
  for (const uint32_t block : uses) {
    if (block >= static_cast<uint32_t>(layout.block_size())) return {};
    names.push_back(layout.block(static_cast<int>(block)).name());
  }
  return names;
}

WorkerNames NamesOfWorkers(const v1::Plan& plan) {
  std::vector<std::string> names;
  for (const v1::WorkerPlan& worker : plan.worker()) names.push_back(worker.name());
  return std::make_shared<const std::vector<std::string>>(std::move(names));
}

}  // namespace

JobShard::JobShard(uint64_t job, ShardLayout layout, Environment environment)
    : job_(job),
      layout_(std::move(layout)),
      environment_(std::move(environment)),
      memory_bytes_(layout_.memory_bytes) {}

absl::StatusOr<std::shared_ptr<JobShard>> JobShard::Create(const v1::Assignment& assignment,
                                                           ShardLayout layout,
                                                           Environment environment) {
  const v1::Plan& plan = assignment.plan();
  std::shared_ptr<JobShard> shard(
      new JobShard(plan.job(), std::move(layout), std::move(environment)));
  RETURN_IF_ERROR(shard->AllocatePages(assignment), "job %d", plan.job());
  if (const StepRules rules = RulesOf(assignment.spec()); rules.votes) {
    shard->votes_ =
        std::make_shared<VoteExchange>(plan, shard->layout_.map, shard->layout_.server, rules,
                                       shard->environment_.open_link, shard->weak_from_this());
  }
  MutexLock lock(&shard->mutex_);
  shard->peers_ = PeersOf(assignment.plan());
  return shard;
}

absl::Status JobShard::AllocatePages(const v1::Assignment& assignment) {
  const v1::Plan& plan = assignment.plan();
  const StepRules rules = RulesOf(assignment.spec());
  const WorkerNames workers = NamesOfWorkers(plan);
  pages_.resize(layout_.map.num_segments());
  for (uint32_t s = 0; s < layout_.map.num_segments(); ++s) {
    pages_[s].resize(layout_.map.pages(s).size());
  }
  for (const PageLayout& layout : layout_.pages) {
    ASSIGN_OR_RETURN(FloatBuffer initial, FloatBuffer::Allocate(layout.element_count));
    FillInitialWeights(plan.layout().segment(static_cast<int>(layout.segment)),
                       assignment.spec().seed(), layout.first_element, layout.element_count,
                       initial.data());
    const uint64_t index = layout.first_element / layout_.map.page_elements();
    ParameterPage::Options options;
    options.segment = layout.segment;
    options.page = static_cast<uint32_t>(index);
    options.first_element = layout.first_element;
    options.element_count = layout.element_count;
    options.generation = plan.generation();
    options.shares = layout_.shares;
    options.uses = layout.uses;
    options.rules = rules;
    options.blocks = BlockNames(plan.layout(), layout.segment);
    options.workers = workers;
    options.ranges = layout.ranges;
    ASSIGN_OR_RETURN(
        ParameterPage page,
        ParameterPage::Create(std::move(options), layout_.optimizer, std::move(initial)));
    pages_[layout.segment][index] = std::make_unique<SharedPage>(job_, std::move(page));
    held_.push_back(pages_[layout.segment][index].get());
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
  for (SharedPage* page : held_) visit(*page);
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
  key.source = header.source();
  ASSIGN_OR_RETURN(const SharedPage::Vote vote, page->Add(key, elements));
  HandOn(vote);
  return absl::OkStatus();
}

void JobShard::HandOn(const SharedPage::Vote& vote) const {
  if (vote.has_value() && votes_ != nullptr) votes_->Add(*vote);
}

void JobShard::ChangePages(std::function<absl::StatusOr<SharedPage::Vote>(SharedPage&)> change) {
  environment_.pool->ForEach(
      held_.size(), [shard = shared_from_this(), change = std::move(change)](size_t index) {
        SharedPage& page = *shard->held_[index];
        const absl::StatusOr<SharedPage::Vote> vote = change(page);
        if (vote.ok()) {
          shard->HandOn(*vote);
        } else {
          shard->OnVotesFailed(page.generation(), vote.status());
        }
      });
}

absl::Status JobShard::Run(const v1::Assignment& assignment) {
  ASSIGN_OR_RETURN(const LearningRate rate,
                   LearningRate::Create(assignment.spec().optimizer(), assignment.steps_total()),
                   "job %d", job_);
  if (votes_ != nullptr) votes_->Run();
  ChangePages([rate](SharedPage& page) { return page.Begin(rate); });
  return absl::OkStatus();
}

std::shared_ptr<VoteCounter> JobShard::counter() const {
  return votes_ != nullptr && votes_->counts() ? votes_ : nullptr;
}

std::vector<ParameterPage::Vote> JobShard::Votes() const {
  std::vector<ParameterPage::Vote> all;
  ForEachPage([&all](const SharedPage& page) {
    std::vector<ParameterPage::Vote> votes = page.Votes();
    all.insert(all.end(), std::make_move_iterator(votes.begin()),
               std::make_move_iterator(votes.end()));
  });
  return all;
}

void JobShard::OnDecision(std::shared_ptr<const v1::StepDecision> decision) {
  ChangePages([decision = std::move(decision)](SharedPage& page) { return page.Decide(*decision); });
}

void JobShard::OnSkippedStep(uint64_t generation, uint64_t step, const std::string& why) {
  LogWarning("step skipped", "job=%d generation=%d step=%d why=%s", job_, generation, step,
             LogValue(why));
  v1::JobReport report;
  report.mutable_skipped_step()->set_step(step);
  report.mutable_skipped_step()->set_why(why);
  Report(generation, std::move(report));
}

void JobShard::OnVotesFailed(uint64_t generation, const absl::Status& status) {
  LogWarning("job cannot go on", "job=%d generation=%d status=%s", job_, generation,
             LogValue(status.ToString()));
  v1::JobReport report;
  report.mutable_failed()->set_code(static_cast<int32_t>(status.code()));
  report.mutable_failed()->set_message(std::string(status.message()));
  Report(generation, std::move(report));
}

void JobShard::Report(uint64_t generation, v1::JobReport report) const {
  if (environment_.report == nullptr) return;
  v1::ReportRequest request;
  request.set_job(job_);
  request.set_generation(generation);
  *request.add_report() = std::move(report);
  environment_.report(std::move(request));
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
  // The counter goes first: votes of the new generation must find it there.
  if (votes_ != nullptr) votes_->BeginGeneration(assignment.plan());
  const WorkerNames workers = NamesOfWorkers(assignment.plan());
  ForEachPage([&](SharedPage& page) {
    page.BeginGeneration(assignment.plan().generation(), workers);
    for (ParameterPage::Vote& vote : page.Votes()) HandOn(std::move(vote));
  });
  return absl::OkStatus();
}

void JobShard::Reduce() {
  if (votes_ != nullptr) votes_->End();
  ForEachPage([](SharedPage& page) { page.Reduce(); });
  uint64_t elements = 0;
  for (const PageLayout& page : layout_.pages) elements += page.element_count;
  memory_bytes_ = elements * sizeof(float);
}

void JobShard::Drop() {
  dropped_ = true;
  if (votes_ != nullptr) votes_->End();
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
