#include "tests/e2e/cnn_job.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace sangam::testing {

std::string CnnModel() {
  const auto block = [](int index, const std::string& layers, const std::string& more = "") {
    return absl::StrCat("  block { name: \"b", index, "\" ", layers, " ", more, " }\n");
  };
  const std::string norm = " layer { batch_norm {} } layer { relu {} }";
  return absl::StrCat(
      "  input_shape: [28, 28, 1]\n",
      block(0, "layer { conv2d { out_channels: 4 kernel_height: 3 stride: 2 padding: 1 } }" + norm),
      block(1,
            "layer { residual { layer { conv2d { out_channels: 6 kernel_height: 3 stride: 2 "
            "padding: 1 no_bias: true } } layer { batch_norm {} } shortcut { conv2d { "
            "out_channels: 6 kernel_height: 1 stride: 2 } } } } layer { relu {} }",
            "recompute: true"),
      block(2, "layer { dropout { rate: 0.2 } }"),
      block(3,
            "layer { concat { branch { layer { conv2d { out_channels: 3 kernel_height: 3 padding: "
            "1 } } layer { batch_norm {} } } branch { layer { average_pool2d { kernel: 3 stride: 1 "
            "padding: 1 } } } branch {} } }"),
      block(4, "layer { max_pool2d { kernel: 2 } } layer { layer_norm {} }"),
      block(5, "layer { flatten {} } layer { linear { out_features: 20 } }" + norm),
      block(6,
            "layer { linear { out_features: 20 } } layer { sigmoid {} } "
            "layer { dropout { rate: 0.2 } }"),
      block(7, "layer { linear { out_features: 10 } }"));
}

std::string CnnJobText(const CnnJob& job) {
  return absl::StrCat(
      "name: \"", job.name, "\" seed: 7\nmodel {\n", CnnModel(),
      "}\nloss { softmax_cross_entropy {} }\n",
      "data { idx { train_images: \"train-images\" train_labels: \"train-labels\" test_images: "
      "\"test-images\" test_labels: \"test-labels\" } mean: 0.5 stddev: 0.25 ",
      job.data, " }\noptimizer { ", job.optimizer, " }\nbatch { size: ", job.batch,
      " micro_batches: ", job.micro_batches, " shares: ", job.shares, " }\nepochs: ", job.epochs,
      "\n", job.more, "\n");
}

}  // namespace sangam::testing
