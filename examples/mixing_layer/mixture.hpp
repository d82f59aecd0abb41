// Viscosity of a hydrogen-air mixture: Sutherland's law for each gas, Wilke's rule for the mixture.
// Sutherland constants: F. M. White, Viscous Fluid Flow, table 1-2. Rule: C. R. Wilke, J. Chem. Phys.
// 18 (1950) 517.
// SPDX-License-Identifier: Apache-2.0
#ifndef MIXTURE_HPP
#define MIXTURE_HPP

#include <cmath>
#include <cstddef>
#include <vector>

namespace mixture {

constexpr double mass_hydrogen = 2.016, mass_air = 28.96;  // g/mol
constexpr double coldest = 300, hottest = 2500;            // K: the range of table and network

inline double sutherland(double mu0, double s, double t) {
  constexpr double t0 = 273;
  return mu0 * std::pow(t / t0, 1.5) * (t0 + s) / (t + s);
}

// Mole fraction of hydrogen from its mass fraction.
inline double moles(double y) { return y / (y + (1 - y) * (mass_hydrogen / mass_air)); }

// Pa s, at t kelvin and mole fraction x of hydrogen.
inline double viscosity(double t, double x) {
  const double hydrogen = sutherland(8.411e-6, 97, t), air = sutherland(1.716e-5, 111, t);
  auto phi = [](double mu_i, double mu_j, double m_i, double m_j) {
    const double root = 1 + std::sqrt(mu_i / mu_j) * std::pow(m_j / m_i, 0.25);
    return root * root / std::sqrt(8 * (1 + m_i / m_j));
  };
  const double ha = phi(hydrogen, air, mass_hydrogen, mass_air);
  const double ah = phi(air, hydrogen, mass_air, mass_hydrogen);
  return x * hydrogen / (x + (1 - x) * ha) + (1 - x) * air / ((1 - x) + x * ah);
}

// The dense table that solvers use: bilinear in temperature and mole fraction.
class Table {
 public:
  explicit Table(std::size_t n) : n_(n), values_(n * n) {
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        const double t = coldest + (hottest - coldest) * double(i) / double(n - 1);
        values_[i * n + j] = float(viscosity(t, double(j) / double(n - 1)));
      }
  }
  std::size_t bytes() const { return values_.size() * sizeof(float); }
  float operator()(float t, float x) const {
    const float last = float(n_ - 1);
    const float a = (t - float(coldest)) * (last / float(hottest - coldest)), b = x * last;
    const std::size_t i = std::size_t(std::fmin(std::fmax(a, 0.0f), last - 1));
    const std::size_t j = std::size_t(std::fmin(std::fmax(b, 0.0f), last - 1));
    const float u = a - float(i), v = b - float(j);
    const float *p = &values_[i * n_ + j];
    return (1 - u) * ((1 - v) * p[0] + v * p[1]) + u * ((1 - v) * p[n_] + v * p[n_ + 1]);
  }

 private:
  std::size_t n_;
  std::vector<float> values_;
};

}  // namespace mixture
#endif
