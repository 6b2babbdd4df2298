#include "tests/testing/reference_trainer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/philox.h"
#include "common/data/sampler.h"
#include "common/model/initializer.h"
#include "common/model/job_check.h"
#include "common/model/model_layout.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "tests/testing/idx_files.h"

namespace sangam::testing {
namespace {

using Vector = std::vector<double>;

constexpr double kPi = 3.14159265358979323846;

// A parameter with its gradient and the optimizer's state.
struct Parameter {
  Vector value, gradient, first, second;
  bool decay = false;
};

// One layer of the chain, with the number that addresses its random numbers.
struct Layer {
  v1::LayerSpec spec;
  uint32_t number = 0;
  Parameter* weight = nullptr;
  Parameter* bias = nullptr;
};

class Network {
 public:
  Network(const v1::JobSpec& spec, const v1::ModelLayout& layout) : spec_(spec) {
    uint32_t number = 0;
    for (int b = 0; b < spec.model().block_size(); ++b) {
      for (int i = 0; i < spec.model().block(b).layer_size(); ++i) {
        Layer layer;
        layer.spec = spec.model().block(b).layer(i);
        layer.number = number++;
        layers_.push_back(layer);
      }
    }
    size_t next_linear = 0;
    for (const v1::SegmentLayout& segment : layout.segment()) {
      std::vector<float> initial(segment.element_count());
      FillInitialWeights(segment, spec.seed(), 0, segment.element_count(), initial.data());
      for (const v1::ParameterLayout& p : segment.parameter()) {
        Parameter& parameter = parameters_[p.name()];
        parameter.value.assign(initial.begin() + p.offset(),
                               initial.begin() + p.offset() + p.element_count());
        parameter.gradient.assign(p.element_count(), 0);
        parameter.first = parameter.second = parameter.gradient;
        parameter.decay = p.decay();
        const bool weight = p.shape_size() == 2;
        while (weight && !layers_[next_linear].spec.has_linear()) ++next_linear;
        if (weight) {
          layers_[next_linear++].weight = &parameter;
        } else {
          layers_[next_linear - 1].bias = &parameter;
        }
      }
    }
  }

  // Forward through all layers; `inputs` gets the input of each layer.
  Vector Forward(Vector x, bool training, uint64_t step, uint64_t position,
                 std::vector<Vector>* inputs) const {
    for (const Layer& layer : layers_) {
      if (inputs != nullptr) inputs->push_back(x);
      x = Apply(layer, x, training, step, position);
    }
    return x;
  }

  void Backward(Vector dy, uint64_t step, uint64_t position, const std::vector<Vector>& inputs) {
    for (size_t i = layers_.size(); i-- > 0;) {
      dy = Back(layers_[i], inputs[i], dy, step, position);
    }
  }

  // Divides the gradients by `samples` and takes one step; `t` counts from 1.
  void Update(double samples, double t) {
    for (auto& [name, p] : parameters_) {
      for (size_t i = 0; i < p.value.size(); ++i) {
        UpdateElement(p, i, p.gradient[i] / samples, t);
        p.gradient[i] = 0;
      }
    }
  }

  const std::map<std::string, Parameter>& parameters() const { return parameters_; }

 private:
  double Keep(const Layer& layer, uint64_t step, uint64_t position, uint64_t element) const {
    const RandomStream stream(spec_.seed(), RandomPurpose::kDropout, step,
                              uint64_t{layer.number} << 32 | position);
    const float rate = layer.spec.dropout().rate();
    return ToUnitFloat(stream.At(element)) >= rate ? 1.0 / (1.0 - static_cast<double>(rate)) : 0.0;
  }

  Vector Apply(const Layer& layer, const Vector& x, bool training, uint64_t step,
               uint64_t position) const {
    Vector y = x;
    switch (layer.spec.kind_case()) {
      case v1::LayerSpec::kLinear:
        y.assign(layer.spec.linear().out_features(), 0);
        for (size_t o = 0; o < y.size(); ++o) {
          for (size_t i = 0; i < x.size(); ++i)
            y[o] += x[i] * layer.weight->value[o * x.size() + i];
          if (layer.bias != nullptr) y[o] += layer.bias->value[o];
        }
        return y;
      case v1::LayerSpec::kRelu:
        for (double& v : y) v = std::max(v, 0.0);
        return y;
      case v1::LayerSpec::kGelu:
        for (double& v : y) v = v * 0.5 * (1 + std::erf(v / std::sqrt(2.0)));
        return y;
      case v1::LayerSpec::kTanh:
        for (double& v : y) v = std::tanh(v);
        return y;
      case v1::LayerSpec::kDropout:
        for (size_t e = 0; training && e < y.size(); ++e) y[e] *= Keep(layer, step, position, e);
        return y;
      case v1::LayerSpec::kFlatten:
        return y;
      default:
        break;
    }
    SANGAM_CHECK(false);  // The reference knows layers of single vectors only.
  }

  Vector Back(const Layer& layer, const Vector& x, const Vector& dy, uint64_t step,
              uint64_t position) {
    Vector dx = dy;
    switch (layer.spec.kind_case()) {
      case v1::LayerSpec::kLinear:
        dx.assign(x.size(), 0);
        for (size_t o = 0; o < dy.size(); ++o) {
          for (size_t i = 0; i < x.size(); ++i) {
            dx[i] += dy[o] * layer.weight->value[o * x.size() + i];
            layer.weight->gradient[o * x.size() + i] += dy[o] * x[i];
          }
          if (layer.bias != nullptr) layer.bias->gradient[o] += dy[o];
        }
        return dx;
      case v1::LayerSpec::kRelu:
        for (size_t e = 0; e < dx.size(); ++e) dx[e] = x[e] > 0 ? dy[e] : 0;
        return dx;
      case v1::LayerSpec::kGelu:
        for (size_t e = 0; e < dx.size(); ++e) {
          const double cumulative = 0.5 * (1 + std::erf(x[e] / std::sqrt(2.0)));
          const double density = std::exp(-0.5 * x[e] * x[e]) / std::sqrt(2 * kPi);
          dx[e] = dy[e] * (cumulative + x[e] * density);
        }
        return dx;
      case v1::LayerSpec::kTanh:
        for (size_t e = 0; e < dx.size(); ++e) {
          const double y = std::tanh(x[e]);
          dx[e] = dy[e] * (1 - y * y);
        }
        return dx;
      case v1::LayerSpec::kDropout:
        for (size_t e = 0; e < dx.size(); ++e) dx[e] = dy[e] * Keep(layer, step, position, e);
        return dx;
      case v1::LayerSpec::kFlatten:
        return dx;
      default:
        break;
    }
    SANGAM_CHECK(false);
  }

  void UpdateElement(Parameter& p, size_t i, double g, double t) const {
    const v1::OptimizerSpec& optimizer = spec_.optimizer();
    const double rate = static_cast<double>(optimizer.learning_rate());
    if (optimizer.has_sgd()) {
      p.value[i] -= rate * g;
    } else if (optimizer.has_momentum()) {
      p.first[i] = static_cast<double>(optimizer.momentum().momentum()) * p.first[i] + g;
      p.value[i] -= rate * p.first[i];
    } else {
      const v1::AdamWSpec& adamw = optimizer.adamw();
      const double beta1 = static_cast<double>(adamw.beta1());
      const double beta2 = static_cast<double>(adamw.beta2());
      p.first[i] = beta1 * p.first[i] + (1 - beta1) * g;
      p.second[i] = beta2 * p.second[i] + (1 - beta2) * g * g;
      const double m = p.first[i] / (1 - std::pow(beta1, t));
      const double v = p.second[i] / (1 - std::pow(beta2, t));
      const double decay = p.decay ? static_cast<double>(adamw.weight_decay()) * p.value[i] : 0;
      p.value[i] -= rate * (m / (std::sqrt(v) + static_cast<double>(adamw.epsilon())) + decay);
    }
  }

  const v1::JobSpec& spec_;
  std::vector<Layer> layers_;
  std::map<std::string, Parameter> parameters_;
};

Vector Pixels(const v1::DataSpec& data, const std::vector<uint8_t>& image) {
  Vector x;
  for (const uint8_t pixel : image) {
    x.push_back((pixel / 255.0 - static_cast<double>(data.mean())) /
                static_cast<double>(data.stddev()));
  }
  return x;
}

// Cross-entropy of one sample; `gradient` gets its derivative by the logits.
double CrossEntropy(const Vector& logits, uint8_t label, Vector* gradient) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double z : logits) sum += std::exp(z - largest);
  gradient->clear();
  for (const double z : logits) gradient->push_back(std::exp(z - largest) / sum);
  (*gradient)[label] -= 1;
  return std::log(sum) + largest - logits[label];
}

}  // namespace

ReferenceResult TrainReference(const v1::JobSpec& given, const ImageSet& train,
                               const ImageSet& test) {
  const v1::JobSpec spec = ResolveDefaults(given);
  const auto layout = BuildModelLayout(spec.model());
  ReferenceResult result;
  EXPECT_TRUE(layout.ok()) << layout.status();
  if (!layout.ok()) return result;
  Network network(spec, *layout);
  const uint64_t samples = train.images.size();
  const uint64_t batch = spec.batch().size();
  const uint64_t steps_per_epoch = (samples + batch - 1) / batch;
  const uint64_t steps = spec.has_steps() ? spec.steps() : spec.epochs() * steps_per_epoch;
  Vector gradient;
  for (uint64_t step = 0; step < steps; ++step) {
    const Sampler sampler = spec.data().no_shuffle()
                                ? Sampler::InOrder(samples)
                                : Sampler::Shuffled(spec.seed(), step / steps_per_epoch, samples);
    const uint64_t first = step % steps_per_epoch * batch;
    const uint64_t size = std::min(batch, samples - first);
    double loss = 0;
    for (uint64_t position = 0; position < size; ++position) {
      const uint64_t sample = sampler.SampleAt(first + position);
      std::vector<Vector> inputs;
      const Vector logits =
          network.Forward(Pixels(spec.data(), train.images[sample]), true, step, position, &inputs);
      loss += CrossEntropy(logits, train.labels[sample], &gradient);
      network.Backward(gradient, step, position, inputs);
    }
    result.step_losses.push_back(loss / static_cast<double>(size));
    network.Update(static_cast<double>(size), static_cast<double>(step + 1));
  }
  for (size_t i = 0; i < test.images.size(); ++i) {
    const Vector logits =
        network.Forward(Pixels(spec.data(), test.images[i]), false, 0, 0, nullptr);
    result.test_loss += CrossEntropy(logits, test.labels[i], &gradient);
    const auto largest = std::max_element(logits.begin(), logits.end()) - logits.begin();
    if (largest == test.labels[i]) ++result.correct;
  }
  result.test_loss /= static_cast<double>(std::max<size_t>(1, test.images.size()));
  for (const auto& [name, parameter] : network.parameters()) {
    result.parameters[name] = parameter.value;
  }
  return result;
}

}  // namespace sangam::testing
