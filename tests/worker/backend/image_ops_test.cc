#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/worker/backend/counting_backend.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"

// The checks of operations on images that all backends share.
namespace sangam {
namespace {

// Two images of 4 x 3 pixels and 2 channels; windows of 3 x 3, stride 2, padding 1: 2 x 2 results.
class ImageOpsTest : public testing::CountingBackendTest {
 protected:
  static WindowShape Shape(int64_t out_channels) {
    WindowShape shape;
    shape.in = {4, 3, 2};
    shape.window = {3, 3, 2, 1};
    shape.out_channels = out_channels;
    return shape;
  }

  Matrix in_ = At(0, 2, 24);
  Matrix weight_ = At(100, 5, 18);
  Matrix bias_ = At(200, 1, 5);
  Matrix out_ = At(300, 2, 20);
  Matrix pooled_ = At(400, 2, 8);
  Matrix pooled_gradient_ = At(500, 2, 8);
  Matrix in_gradient_ = At(600, 2, 24);
};

TEST_F(ImageOpsTest, ResultsHaveTheSizeOfTheirWindows) {
  WindowShape shape = Shape(5);
  EXPECT_EQ(shape.out().height, 2);
  EXPECT_EQ(shape.out().width, 2);
  EXPECT_EQ(shape.out().elements(), 20);
  shape.window = {4, 1, 3, 0};
  EXPECT_EQ(shape.out().height, 1);
  EXPECT_EQ(shape.out().width, 1);
}

TEST_F(ImageOpsTest, WindowsMustFit) {
  const auto refuses = [this](const WindowShape& shape, const std::string& message) {
    ExpectRefused(backend_.Conv2d(shape, in_, weight_, Epilogue::kNone, {}, out_), message);
    ExpectRefused(backend_.Conv2dBackwardInput(shape, weight_, out_, in_gradient_), message);
    ExpectRefused(backend_.Conv2dBackwardWeight(shape, in_, out_, false, weight_), message);
    ExpectRefused(backend_.MaxPool2d(shape, in_, pooled_), message);
    ExpectRefused(backend_.MaxPool2dBackward(shape, in_, pooled_, pooled_gradient_, in_gradient_),
                  message);
    ExpectRefused(backend_.AveragePool2d(shape, in_, pooled_), message);
    ExpectRefused(backend_.AveragePool2dBackward(shape, pooled_, in_gradient_), message);
  };
  WindowShape shape = Shape(2);
  shape.window.stride = 0;
  refuses(shape, "found a size of 0, expected one in [1, 1048576]");
  shape = Shape(2);
  shape.in.width = (int64_t{1} << 20) + 1;
  refuses(shape, "found a size of 1048577");
  shape = Shape(2);
  shape.window.kernel_height = -3;
  refuses(shape, "found a size of -3");
  shape = Shape(2);
  shape.window.padding = 3;
  refuses(shape, "padding is 3, expected at least 0 and below 3");
  shape.window.padding = -1;
  refuses(shape, "padding is -1");
  shape = Shape(2);
  shape.window = {7, 3, 1, 1};
  refuses(shape, "kernel is 7 x 3, expected at most the padded image's 6 x 5");
  shape.window = {3, 4, 1, 0};
  refuses(shape, "kernel is 3 x 4, expected at most the padded image's 4 x 3");
}

TEST_F(ImageOpsTest, ConvolutionChecksShapesAndOverlap) {
  const WindowShape shape = Shape(5);
  const auto conv = [&](Matrix in, Matrix weight, Epilogue epilogue, Matrix bias, Matrix out) {
    return backend_.Conv2d(shape, in, weight, epilogue, bias, out);
  };
  ExpectPassed(conv(in_, weight_, Epilogue::kNone, {}, out_));
  ExpectPassed(conv(in_, weight_, Epilogue::kBias, bias_, out_));
  ExpectNothingToDo(conv(At(0, 0, 24), weight_, Epilogue::kNone, {}, At(300, 0, 20)));
  ExpectRefused(conv(At(0, 2, 23), weight_, Epilogue::kNone, {}, out_),
                "in is [2, 23], expected [2, 24]");
  ExpectRefused(conv(in_, At(100, 18, 5), Epilogue::kNone, {}, out_),
                "weight is [18, 5], expected [5, 18]");
  ExpectRefused(conv(in_, weight_, Epilogue::kNone, {}, At(300, 3, 20)),
                "out is [3, 20], expected [2, 20]");
  ExpectRefused(conv(in_, weight_, Epilogue::kBiasRelu, At(200, 1, 4), out_),
                "bias is [1, 4], expected [1, 5]");
  ExpectRefused(conv(in_, weight_, Epilogue::kNone, {}, At(40, 2, 20)), "in overlaps");
  ExpectRefused(conv(in_, weight_, Epilogue::kNone, {}, At(189, 2, 20)), "weight overlaps");
  ExpectRefused(conv(in_, weight_, Epilogue::kBias, At(310, 1, 5), out_), "bias overlaps");
}

TEST_F(ImageOpsTest, ConvolutionBackwardChecksShapesAndOverlap) {
  const WindowShape shape = Shape(5);
  ExpectPassed(backend_.Conv2dBackwardInput(shape, weight_, out_, in_gradient_));
  ExpectNothingToDo(backend_.Conv2dBackwardInput(shape, weight_, At(300, 0, 20), At(600, 0, 24)));
  ExpectRefused(backend_.Conv2dBackwardInput(shape, At(100, 5, 17), out_, in_gradient_),
                "weight is [5, 17]");
  ExpectRefused(backend_.Conv2dBackwardInput(shape, weight_, At(300, 2, 19), in_gradient_),
                "output_gradient is [2, 19], expected [2, 20]");
  ExpectRefused(backend_.Conv2dBackwardInput(shape, weight_, out_, At(600, 3, 24)),
                "input_gradient is [3, 24], expected [2, 24]");
  ExpectRefused(backend_.Conv2dBackwardInput(shape, weight_, out_, At(300, 2, 24)),
                "output_gradient overlaps");
  ExpectRefused(backend_.Conv2dBackwardInput(shape, weight_, out_, At(120, 2, 24)),
                "weight overlaps");

  const Matrix gradient = At(700, 5, 18);
  ExpectPassed(backend_.Conv2dBackwardWeight(shape, in_, out_, true, gradient));
  // A gradient of no images is 0.
  ExpectPassed(backend_.Conv2dBackwardWeight(shape, At(0, 0, 24), At(300, 0, 20), false, gradient));
  ExpectRefused(backend_.Conv2dBackwardWeight(shape, in_, At(300, 1, 20), false, gradient),
                "output_gradient is [1, 20], expected [2, 20]");
  ExpectRefused(backend_.Conv2dBackwardWeight(shape, in_, out_, false, At(700, 5, 9)),
                "weight_gradient is [5, 9], expected [5, 18]");
  ExpectRefused(backend_.Conv2dBackwardWeight(shape, in_, out_, false, At(1, 5, 18)),
                "in overlaps");
  ExpectRefused(backend_.Conv2dBackwardWeight(shape, in_, out_, false, At(330, 5, 18)),
                "output_gradient overlaps");
}

TEST_F(ImageOpsTest, PoolingKeepsChannels) {
  ExpectPassed(backend_.MaxPool2d(Shape(2), in_, pooled_));
  ExpectPassed(backend_.MaxPool2dBackward(Shape(2), in_, pooled_, pooled_gradient_, in_gradient_));
  ExpectPassed(backend_.AveragePool2d(Shape(2), in_, pooled_));
  ExpectPassed(backend_.AveragePool2dBackward(Shape(2), pooled_, in_gradient_));
  const std::string message = "found 5 channels of results, expected 2";
  ExpectRefused(backend_.MaxPool2d(Shape(5), in_, out_), message);
  ExpectRefused(backend_.MaxPool2dBackward(Shape(5), in_, out_, out_, in_gradient_), message);
  ExpectRefused(backend_.AveragePool2d(Shape(5), in_, out_), message);
  ExpectRefused(backend_.AveragePool2dBackward(Shape(5), out_, in_gradient_), message);
}

TEST_F(ImageOpsTest, PoolingChecksShapesAndOverlap) {
  const WindowShape shape = Shape(2);
  const Matrix bad = At(400, 2, 9);
  ExpectRefused(backend_.MaxPool2d(shape, At(0, 2, 25), pooled_), "in is [2, 25]");
  ExpectRefused(backend_.MaxPool2d(shape, in_, bad), "out is [2, 9], expected [2, 8]");
  ExpectRefused(backend_.MaxPool2d(shape, in_, At(47, 2, 8)), "in overlaps");
  ExpectNothingToDo(backend_.MaxPool2d(shape, At(0, 0, 24), At(400, 0, 8)));

  const auto backward = [&](Matrix in, Matrix out, Matrix dy, Matrix dx) {
    return backend_.MaxPool2dBackward(shape, in, out, dy, dx);
  };
  ExpectRefused(backward(At(0, 2, 25), pooled_, pooled_gradient_, in_gradient_), "in is [2, 25]");
  ExpectRefused(backward(in_, bad, pooled_gradient_, in_gradient_), "out is [2, 9]");
  ExpectRefused(backward(in_, pooled_, bad, in_gradient_), "output_gradient is [2, 9]");
  ExpectRefused(backward(in_, pooled_, pooled_gradient_, At(600, 1, 24)),
                "input_gradient is [1, 24], expected [2, 24]");
  ExpectRefused(backward(in_, pooled_, pooled_gradient_, in_), "in overlaps");
  ExpectRefused(backward(in_, pooled_, pooled_gradient_, At(415, 2, 24)), "out overlaps");
  ExpectRefused(backward(in_, pooled_, pooled_gradient_, At(515, 2, 24)),
                "output_gradient overlaps");
  ExpectNothingToDo(backward(At(0, 0, 24), At(400, 0, 8), At(500, 0, 8), At(600, 0, 24)));

  ExpectRefused(backend_.AveragePool2d(shape, At(0, 2, 25), pooled_), "in is [2, 25]");
  ExpectRefused(backend_.AveragePool2d(shape, in_, bad), "out is [2, 9]");
  ExpectRefused(backend_.AveragePool2d(shape, in_, At(47, 2, 8)), "in overlaps");
  ExpectNothingToDo(backend_.AveragePool2d(shape, At(0, 0, 24), At(400, 0, 8)));
  ExpectRefused(backend_.AveragePool2dBackward(shape, bad, in_gradient_),
                "output_gradient is [2, 9]");
  ExpectRefused(backend_.AveragePool2dBackward(shape, pooled_, At(600, 3, 24)),
                "input_gradient is [3, 24]");
  ExpectRefused(backend_.AveragePool2dBackward(shape, pooled_, At(415, 2, 24)),
                "output_gradient overlaps");
  ExpectNothingToDo(backend_.AveragePool2dBackward(shape, At(400, 0, 8), At(600, 0, 24)));
}

}  // namespace
}  // namespace sangam
