// The stiff double pendulum in its two angles by hand: what a careful programmer gets from one core, without a library.
// The Rosenbrock-Nystrom method of Negrut et al. (2003), its controller, and a Jacobian by dual numbers. `tableau.h` is written from the
// library's own coefficients. Arguments: runs, threads, least and greatest stiffness of the first spring, tolerance, end time.
// Prints the seconds of all runs and the step attempts, then the two angles at the end of each run.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tableau.h"

// A number and its derivatives by the two angles and the two rates.
struct Dual {
    double value, slope[4];
    Dual(double v = 0.0) : value(v), slope{0, 0, 0, 0} {}
};

template <class Slope>
inline Dual with_slopes(double value, Slope slope) {
    Dual r(value);
    for (int i = 0; i < 4; i++) r.slope[i] = slope(i);
    return r;
}
inline Dual operator+(const Dual &a, const Dual &b) {
    return with_slopes(a.value + b.value, [&](int i) { return a.slope[i] + b.slope[i]; });
}
inline Dual operator-(const Dual &a, const Dual &b) {
    return with_slopes(a.value - b.value, [&](int i) { return a.slope[i] - b.slope[i]; });
}
inline Dual operator*(const Dual &a, const Dual &b) {
    return with_slopes(a.value * b.value, [&](int i) { return a.slope[i] * b.value + a.value * b.slope[i]; });
}
inline Dual operator/(const Dual &a, const Dual &b) {
    const double inverse = 1.0 / b.value, quotient = a.value * inverse;
    return with_slopes(quotient, [&](int i) { return (a.slope[i] - quotient * b.slope[i]) * inverse; });
}
inline Dual cos(const Dual &a) {
    const double factor = -std::sin(a.value);
    return with_slopes(std::cos(a.value), [&](int i) { return factor * a.slope[i]; });
}
inline Dual sin(const Dual &a) {
    const double factor = std::cos(a.value);
    return with_slopes(std::sin(a.value), [&](int i) { return factor * a.slope[i]; });
}

// kg, m, N m s/rad, N m/rad, m/s^2; rods are uniform and have half lengths.
constexpr double mass1 = 3.0, mass2 = 0.3, half1 = 1.0, half2 = 1.5, damping1 = 15.0, stiffness2 = 3e5, damping2 = 5e4, gravity = 9.81;
constexpr double pi = 3.14159265358979323846;
constexpr double inertia1 = mass1 * half1 * half1 * 4 / 3 + mass2 * 4 * half1 * half1, inertia2 = mass2 * half2 * half2 * 4 / 3;
constexpr double coupling = 2 * mass2 * half1 * half2;

template <class T>
inline void acceleration(double stiffness1, const T q[2], const T v[2], T a[2]) {
    using std::cos, std::sin;
    const T between = q[0] - q[1], across = T(coupling) * cos(between), turning = T(coupling) * sin(between);
    const T torque1 = T(-stiffness1) * (q[0] - T(1.5 * pi)) - T(damping1) * v[0];
    const T torque2 = T(-stiffness2) * (q[1] - q[0]) - T(damping2) * (v[1] - v[0]);
    const T force1 = torque1 - torque2 - turning * v[1] * v[1] - T(gravity * half1 * (mass1 + 2 * mass2)) * cos(q[0]);
    const T force2 = torque2 + turning * v[0] * v[0] - T(gravity * half2 * mass2) * cos(q[1]);
    const T determinant = T(inertia1 * inertia2) - across * across;
    a[0] = (T(inertia2) * force1 - across * force2) / determinant;
    a[1] = (T(inertia1) * force2 - across * force1) / determinant;
}

// Integrates one run to its end; returns how many steps it tried.
long integrate(double stiffness, double tolerance, double end, double q[2], double v[2]) {
    double t = 0.0, h = 1e-4;
    long attempts = 0;
    while (t < end) {
        h = std::min(h, end - t);
        Dual dual_q[2] = {q[0], q[1]}, dual_v[2] = {v[0], v[1]}, dual_a[2];
        for (int i = 0; i < 2; i++) dual_q[i].slope[i] = dual_v[i].slope[2 + i] = 1.0;
        acceleration(stiffness, dual_q, dual_v, dual_a);
        // (I / gamma - h J2 - gamma h^2 J1) l_i = h F_i + h^2 J1 (gamma_i v + sum delta_ij l_j) + sum c_ij l_j
        double matrix[2][2], by_q[2][2], force[2] = {dual_a[0].value, dual_a[1].value}, l[STAGES][2];
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++) {
                by_q[i][j] = dual_a[i].slope[j];
                matrix[i][j] = (i == j) / GAMMA - h * dual_a[i].slope[2 + j] - h * h * GAMMA * by_q[i][j];
            }
        const double inverse = 1.0 / (matrix[0][0] * matrix[1][1] - matrix[0][1] * matrix[1][0]);
        for (int s = 0; s < STAGES; s++) {
            if (s > 0 && !REUSES[s]) {
                double stage_q[2], stage_v[2];
                for (int i = 0; i < 2; i++) {
                    stage_q[i] = q[i] + h * TIMES[s] * v[i], stage_v[i] = v[i];
                    for (int j = 0; j < s; j++) stage_q[i] += h * THETA[s][j] * l[j][i], stage_v[i] += A[s][j] * l[j][i];
                }
                acceleration(stiffness, stage_q, stage_v, force);
            }
            double rate[2], right[2];
            for (int i = 0; i < 2; i++) {
                rate[i] = SLOPES[s] * v[i];
                for (int j = 0; j < s; j++) rate[i] += DELTA[s][j] * l[j][i];
            }
            for (int i = 0; i < 2; i++) {
                right[i] = h * force[i] + h * h * (by_q[i][0] * rate[0] + by_q[i][1] * rate[1]);
                for (int j = 0; j < s; j++) right[i] += C[s][j] * l[j][i];
            }
            l[s][0] = inverse * (matrix[1][1] * right[0] - matrix[0][1] * right[1]);
            l[s][1] = inverse * (matrix[0][0] * right[1] - matrix[1][0] * right[0]);
        }
        double new_q[2], new_v[2], sum = 0.0;
        for (int i = 0; i < 2; i++) {
            double error_q = 0.0, error_v = 0.0;
            new_q[i] = q[i] + h * v[i], new_v[i] = v[i];
            for (int s = 0; s < STAGES; s++) {
                new_q[i] += h * THETA[STAGES][s] * l[s][i], new_v[i] += A[STAGES][s] * l[s][i];
                error_q += h * MU_ERROR[s] * l[s][i], error_v += M_ERROR[s] * l[s][i];
            }
            error_q /= tolerance * (1 + std::max(std::fabs(q[i]), std::fabs(new_q[i])));
            error_v /= tolerance * (1 + std::max(std::fabs(v[i]), std::fabs(new_v[i])));
            sum += error_q * error_q + error_v * error_v;
        }
        const double error = std::sqrt(sum / 4), done = h;
        h *= std::min(5.0, std::max(0.2, 0.9 * std::pow(error, -0.25)));
        attempts++;
        if (error <= 1.0) {
            t = done >= end - t ? end : t + done;
            for (int i = 0; i < 2; i++) q[i] = new_q[i], v[i] = new_v[i];
        }
    }
    return attempts;
}

int main(int, char **arguments) {
    const long runs = std::atol(arguments[1]), threads = std::atol(arguments[2]);
    const double low = std::atof(arguments[3]), high = std::atof(arguments[4]), tolerance = std::atof(arguments[5]), end = std::atof(arguments[6]);
    std::vector<double> ends(2 * runs);
    std::vector<long> attempts(threads, 0);
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> workers;
    for (long worker = 0; worker < threads; worker++)
        workers.emplace_back([&, worker] {
            long own = 0;
            for (long run = worker * runs / threads; run < (worker + 1) * runs / threads; run++) {
                const double stiffness = runs > 1 ? low + (high - low) * run / (runs - 1) : low;
                double q[2] = {2 * pi, 23 * pi / 12}, v[2] = {0.0, 10.0};
                own += integrate(stiffness, tolerance, end, q, v);
                ends[2 * run] = q[0], ends[2 * run + 1] = q[1];
            }
            attempts[worker] = own;
        });
    for (auto &worker : workers) worker.join();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    long all = 0;
    for (long own : attempts) all += own;
    std::printf("%.9g %ld\n", seconds, all);
    for (long run = 0; run < runs; run++) std::printf("%.17g %.17g\n", ends[2 * run], ends[2 * run + 1]);
}
