// A hydrogen-air mixing layer whose momentum diffuses, its viscosity by formula, table and network.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "mixture.hpp"
#include "viscosity_net.hpp"

namespace {

constexpr std::size_t cells = 1 << 15;
constexpr int steps = 40;
constexpr std::size_t parameters = 2 * 16 + 16 + 16 * 16 + 16 + 16 + 1;

struct Layer {
  std::vector<float> temperature, moles, velocity;
};

// Hydrogen above, air below, a hot reaction zone between; ripples along the layer.
Layer start() {
  Layer l{std::vector<float>(cells), std::vector<float>(cells), std::vector<float>(cells)};
  for (std::size_t i = 0; i < cells; ++i) {
    const double ripple = 0.3 * std::sin(0.37 * double(i));
    const double y = 8 * (double(i) / double(cells - 1) - 0.5) + ripple;
    const double mass = 0.5 * (1 + std::tanh(y));
    l.temperature[i] = float(320 + 2000 / std::cosh(y));
    l.moles[i] = float(mixture::moles(mass));
    l.velocity[i] = float(50 * std::tanh(y));
  }
  return l;
}

using Viscosity = std::function<void(const Layer &, std::vector<float> &)>;

struct Result {
  std::vector<float> viscosity, velocity;
  double nanoseconds;  // of one cell's viscosity, the best step
};

Result run(const Viscosity &law) {
  Layer l = start();
  std::vector<float> mu(cells), next(cells);
  double best = 1e30;
  for (int s = 0; s < steps; ++s) {
    const auto before = std::chrono::steady_clock::now();
    law(l, mu);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - before;
    best = took.count() < best ? took.count() : best;
    next = l.velocity;
    for (std::size_t i = 1; i + 1 < cells; ++i) {  // d/dy (mu du/dy), in units that keep it stable
      const float up = 0.5f * (mu[i] + mu[i + 1]) * (l.velocity[i + 1] - l.velocity[i]);
      const float down = 0.5f * (mu[i] + mu[i - 1]) * (l.velocity[i] - l.velocity[i - 1]);
      next[i] += 3000.0f * (up - down);
    }
    l.velocity.swap(next);
  }
  return {mu, l.velocity, best / double(cells)};
}

// The network's inputs are in -1 … 1; its output is viscosity in units of `scale` (see train.py).
void by_network(const Layer &l, std::vector<float> &mu) {
  constexpr std::size_t chunk = 256;
  constexpr float middle = float((mixture::hottest + mixture::coldest) / 2);
  constexpr float half = float((mixture::hottest - mixture::coldest) / 2), scale = 1e-5f;
  static float workspace[viscosity_net::workspace_size + 1];
  float in[2 * chunk];
  for (std::size_t at = 0; at < cells; at += chunk) {
    for (std::size_t i = 0; i < chunk; ++i) {
      in[2 * i] = (l.temperature[at + i] - middle) * (1 / half);
      in[2 * i + 1] = 2 * l.moles[at + i] - 1;
    }
    viscosity_net::predict_batch(chunk, in, &mu[at], workspace);
    for (std::size_t i = 0; i < chunk; ++i) mu[at + i] *= scale;
  }
}

void report(const std::string &name, const Result &r, const Result &exact, std::size_t bytes) {
  double most = 0, sum = 0, drift = 0;
  for (std::size_t i = 0; i < cells; ++i) {
    const double error = std::fabs(r.viscosity[i] / exact.viscosity[i] - 1);
    most = std::fmax(most, error);
    sum += error;
    drift = std::fmax(drift, std::fabs(r.velocity[i] - exact.velocity[i]));
  }
  std::printf(
      "%s: max_error=%.3g mean_error=%.3g velocity_error=%.3g bytes=%zu ns=%.2f speedup=%.2f\n",
      name.c_str(), most, sum / double(cells), drift / 50, bytes, r.nanoseconds,
      exact.nanoseconds / r.nanoseconds);
}

}  // namespace

int main() {
  const mixture::Table table(1024);
  const Result exact = run([](const Layer &l, std::vector<float> &mu) {
    for (std::size_t i = 0; i < cells; ++i)
      mu[i] = float(mixture::viscosity(l.temperature[i], l.moles[i]));
  });
  const Result looked_up = run([&](const Layer &l, std::vector<float> &mu) {
    for (std::size_t i = 0; i < cells; ++i) mu[i] = table(l.temperature[i], l.moles[i]);
  });
  const Result network = run(by_network);
  std::printf("self-test of the network: %.2g\n", double(viscosity_net::self_test()));
  report("formula", exact, exact, 0);
  report("table", looked_up, exact, table.bytes());
  report("network", network, exact, sizeof(float) * parameters);
}
