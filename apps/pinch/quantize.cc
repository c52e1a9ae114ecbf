// pinch quantize: a checkpoint's weights to FP4, in the names of the tools that load them.
#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/pinch/cli.h"
#include "apps/pinch/enum_option.h"
#include "apps/pinch/interrupt.h"
#include "apps/pinch/progress_bar.h"
#include "pinch/fp4_checkpoint.h"
#include "workbench/pattern/pattern.h"

namespace pinch::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kQuantizeExamples = R"(Examples:
  pinch quantize model.safetensors --out model-nvfp4.safetensors
  pinch quantize model.safetensors --format mxfp4 --layout compressed-tensors --out q.safetensors --config config.json
  pinch quantize model.safetensors --include '\.(attention|mlp)\.' --exclude 'lm_head|embed' --out q.safetensors
  pinch quantize model.safetensors --out q.safetensors --json - | jq '.tensors[] | select(.rel_l2 > 0.1) | .name'

Every 2-D floating-point tensor whose columns fill whole groups (16 for nvfp4, 32 for mxfp4) is quantised; all others are
copied byte for byte. The output appears whole or not at all; an earlier file of that name is replaced then.)";

struct CommandOptions {
  std::string model, output;
  Fp4Format format = Fp4Format::kNvfp4;
  Fp4Layout layout = Fp4Layout::kModelOpt;
  std::vector<std::string> include, exclude;
  std::string config;
  JsonOption json;
};

// The tensors that --include and --exclude leave: a name is searched for each expression, as grep does.
class NameFilter {
 public:
  static Result<NameFilter> create(const CommandOptions& options) {
    NameFilter filter;
    for (const bool include : {true, false}) {
      for (const std::string& text : include ? options.include : options.exclude) {
        PINCH_ASSIGN(pattern, Pattern::compile(text, include ? "--include" : "--exclude"));
        (include ? filter.include_ : filter.exclude_).push_back(std::move(pattern));
      }
    }
    return filter;
  }

  [[nodiscard]] bool operator()(const TensorInfo& tensor) const {
    const auto found = [&](const Pattern& pattern) { return pattern.found_in(tensor.name); };
    const bool included = include_.empty() || std::any_of(include_.begin(), include_.end(), found);
    return included && std::none_of(exclude_.begin(), exclude_.end(), found);
  }

 private:
  std::vector<Pattern> include_, exclude_;
};

ordered_json tensor_json(const QuantizedTensor& tensor) {
  const bool quantized = tensor.kept_because.empty();
  ordered_json row{{"name", tensor.name},
                   {"action", quantized ? "quantized" : "copied"},
                   {"dtype", to_string(tensor.dtype)},
                   {"shape", tensor.shape},
                   {"bytes_in", tensor.bytes_in},
                   {"bytes_out", tensor.bytes_out}};
  if (quantized) {
    row.update({{"rel_l2", tensor.relative_l2}, {"max_abs", tensor.max_abs}, {"snr_db", tensor.snr_db}});
  } else {
    row["reason"] = tensor.kept_because;
  }
  return row;
}

struct Totals {
  std::size_t quantized = 0;
  std::uint64_t bytes_in = 0, bytes_out = 0;
};

Totals totals_of(const std::vector<QuantizedTensor>& tensors) {
  Totals totals;
  for (const QuantizedTensor& tensor : tensors) {
    totals.quantized += tensor.kept_because.empty() ? 1 : 0;
    totals.bytes_in += tensor.bytes_in;
    totals.bytes_out += tensor.bytes_out;
  }
  return totals;
}

void print_table(const std::vector<QuantizedTensor>& tensors) {
  std::size_t width = 6;
  for (const QuantizedTensor& tensor : tensors) width = std::max(width, std::min<std::size_t>(tensor.name.size(), 64));
  fmt::print("{:<{}}  {:>4} {:>16} {:>10} {:>10} {:>8}\n", "tensor", width, "type", "shape", "rel L2", "max abs",
             "SNR dB");
  for (const QuantizedTensor& tensor : tensors) {
    fmt::print("{:<{}}  {:>4} {:>16} ", tensor.name, width, to_string(tensor.dtype), to_string(tensor.shape));
    if (tensor.kept_because.empty()) {
      fmt::print("{:>10.3e} {:>10.3e} {:>8.2f}\n", tensor.relative_l2, tensor.max_abs, tensor.snr_db);
    } else {
      fmt::print("copied: {}\n", tensor.kept_because);
    }
  }
}

int quantize(const CommandOptions& options) {
  const auto filter = NameFilter::create(options);
  if (!filter) return report(filter.error());
  const auto model = SafetensorsFile::open(options.model);
  if (!model) return report(model.error());

  // A file size limit is then a refused write instead of a death that leaves a part behind.
  std::signal(SIGXFSZ, SIG_IGN);
  const InterruptGuard interrupt;
  auto bar = std::make_unique<ProgressBar>();
  QuantizeOptions run;
  run.format = options.format;
  run.layout = options.layout;
  run.select = *filter;
  run.config_path = options.config;
  run.progress = [&](const QuantizeProgress& at) {
    bar->show(static_cast<double>(at.done_bytes), static_cast<double>(at.total_bytes), at.tensor);
    return !interrupt.requested();
  };
  const auto tensors = quantize_checkpoint(*model, options.output, run);
  bar.reset();
  if (!tensors) return report(tensors.error());

  const Totals totals = totals_of(*tensors);
  if (!options.json.on_stdout()) print_table(*tensors);
  fmt::print(stderr, "{} of {} tensors quantised to {} ({}), {:.1f} MB -> {:.1f} MB: {}\n", totals.quantized,
             tensors->size(), to_string(options.format), to_string(options.layout),
             static_cast<double>(totals.bytes_in) / 1e6, static_cast<double>(totals.bytes_out) / 1e6, options.output);
  auto rows = ordered_json::array();
  for (const QuantizedTensor& tensor : *tensors) rows.push_back(tensor_json(tensor));
  const auto written = options.json.write({{"model", options.model},
                                           {"output", options.output},
                                           {"format", to_string(options.format)},
                                           {"layout", to_string(options.layout)},
                                           {"quantized", totals.quantized},
                                           {"copied", tensors->size() - totals.quantized},
                                           {"bytes_in", totals.bytes_in},
                                           {"bytes_out", totals.bytes_out},
                                           {"tensors", rows}});
  return written ? kOk : report(written.error());
}

}  // namespace

void add_quantize(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("quantize", "Quantise the weights of a .safetensors model to NVFP4 or MXFP4");
  command->footer(kQuantizeExamples);
  auto options = std::make_shared<CommandOptions>();
  command->add_option("MODEL", options->model, "The .safetensors file to read")->required();
  command->add_option("--out", options->output, "The .safetensors file to write")->required()->type_name("FILE");
  add_enum(*command, "--format", options->format, {Fp4Format::kNvfp4, Fp4Format::kMxfp4},
           "nvfp4: groups of 16 with E4M3 scales; mxfp4: groups of 32 with UE8M0 scales");
  add_enum(*command, "--layout", options->layout, {Fp4Layout::kModelOpt, Fp4Layout::kCompressedTensors},
           "Whose names and configuration the output has");
  command->add_option("--include", options->include, "Quantise only tensors whose name this matches (repeatable)")
      ->type_name("REGEX")
      ->allow_extra_args(false);
  command->add_option("--exclude", options->exclude, "Leave out tensors whose name this matches (repeatable)")
      ->type_name("REGEX")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--config", options->config,
          "Also write the layout's configuration: hf_quant_config.json of modelopt, the quantization_config block "
          "of compressed-tensors")
      ->type_name("FILE");
  options->json.add_to(*command);
  command->callback([options, &status] { status = quantize(*options); });
}

}  // namespace pinch::cli
