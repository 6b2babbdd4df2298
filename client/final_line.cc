#include "client/final_line.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "client/human_format.h"

namespace sangam {

std::string FinalLine(const v1::Job& job) {
  const std::string name =
      job.spec().name().empty() ? absl::StrCat(job.id()) : OneLine(job.spec().name());
  std::string line = absl::StrCat("job ", name, " ", StateName(job.state()),
                                  " steps=", job.progress().steps_done());
  if (job.evaluation_size() > 0) {
    const v1::Evaluation& last = job.evaluation(job.evaluation_size() - 1);
    if (HasAccuracy(job.spec())) {
      absl::StrAppendFormat(&line, " test_accuracy=%.4f", last.accuracy());
    } else {
      absl::StrAppend(&line, " test_loss=", HumanLoss(last.loss()));
    }
  }
  if (job.state() != v1::SUCCEEDED && !job.reason().empty()) {
    const std::string reason =
        absl::StrReplaceAll(OneLine(job.reason()), {{"\\", "\\\\"}, {"\"", "\\\""}});
    absl::StrAppend(&line, " reason=\"", reason, "\"");
  }
  if (job.progress().steps_done() > 0) {
    absl::StrAppendFormat(&line, " samples_per_second=%.0f", job.progress().samples_per_second());
  }
  return line;
}

}  // namespace sangam
