//! Draws from distributions, from the bits of a seed.
//!
//! Logarithm and exponential are made here of the four basic operations, which are exact to the last
//! bit on every machine. Those of the system are not: they differ between libraries, and one seed
//! would be two histories.

use crate::rng::Rng;

/// Terms of the series of the logarithm: the next one is below the precision of the result.
const LN_TERMS: u32 = 12;
/// Terms of the series of the exponential, likewise.
const EXP_TERMS: u32 = 16;
/// Powers of two that a number can have.
const EXPONENTS: (f64, f64) = (-1022.0, 1023.0);
/// Most tries for one normal number. Each succeeds with 79 %.
const MAX_TRIES: u32 = 64;

/// A number between 0 and 1, neither of them included.
pub fn unit(rng: &mut Rng) -> f64 {
    #[allow(clippy::cast_precision_loss)] // 53 bits fit exactly
    let bits = (rng.draw() >> 11) as f64;
    (bits + 0.5) / 9_007_199_254_740_992.0
}

/// The natural logarithm of a positive number.
pub fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = f64::from(u32::try_from(bits >> 52 & 0x7ff).unwrap_or(0)) - 1023.0;
    let mut mantissa = f64::from_bits(bits & 0x000f_ffff_ffff_ffff | 0x3ff0_0000_0000_0000);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1.0;
    }
    // ln m = 2 · (s + s³/3 + s⁵/5 + …) for s = (m − 1)/(m + 1), at most 0.172 here.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let series = (0..LN_TERMS).rev().fold(0.0, |sum, n| sum * square + 1.0 / f64::from(2 * n + 1));
    exponent * std::f64::consts::LN_2 + 2.0 * s * series
}

/// `e` to the power of a number.
pub fn exp(x: f64) -> f64 {
    let power = (x / std::f64::consts::LN_2).round().clamp(EXPONENTS.0, EXPONENTS.1);
    let rest = x - power * std::f64::consts::LN_2;
    let series = (1..=EXP_TERMS).rev().fold(1.0, |sum, n| 1.0 + rest / f64::from(n) * sum);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the bounds above
    let bits = ((power + 1023.0) as u64) << 52;
    series * f64::from_bits(bits)
}

/// A number with the standard normal distribution: the polar method of Marsaglia and Bray (1964).
pub fn normal(rng: &mut Rng) -> f64 {
    for _ in 0..MAX_TRIES {
        let (x, y) = (2.0 * unit(rng) - 1.0, 2.0 * unit(rng) - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * ln(square) / square).sqrt();
        }
    }
    0.0 // once in 10^43
}

/// A waiting time with that mean between events that have no memory.
pub fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -mean * ln(unit(rng))
}

/// A number whose logarithm is normal around that of the median.
pub fn log_normal(rng: &mut Rng, median: f64, sigma: f64) -> f64 {
    median * exp(sigma * normal(rng))
}

/// A factor whose logarithm is normal, with mean 1.
pub fn factor(rng: &mut Rng, sigma: f64) -> f64 {
    exp(sigma * normal(rng) - sigma * sigma / 2.0)
}

/// A number of a Pareto distribution between two bounds, by inversion.
pub fn pareto(rng: &mut Rng, alpha: f64, low: f64, high: f64) -> f64 {
    let ratio = exp(alpha * ln(low / high));
    low * exp(-ln(1.0 - unit(rng) * (1.0 - ratio)) / alpha)
}

/// A power of a positive number.
pub fn power(base: f64, exponent: f64) -> f64 {
    exp(exponent * ln(base))
}

/// Milliseconds, rounded; seconds that no clock can show count as the largest.
pub fn millis(seconds: f64) -> i64 {
    #[allow(clippy::cast_possible_truncation)] // saturates
    let millis = (seconds * 1000.0).round() as i64;
    millis
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_and_exponential_are_those_of_the_system() {
        let mut rng = Rng::new(1);
        for _ in 0..10_000 {
            let x = (unit(&mut rng) - 0.5) * 60.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-13, "exp {x}");
            let y = unit(&mut rng) * 10_f64.powi(i32::try_from(rng.of(0..=12)).unwrap() - 6);
            assert!((ln(y) - y.ln()).abs() < 1e-13 * y.ln().abs().max(1.0), "ln {y}");
        }
        assert_eq!((exp(0.0).to_bits(), ln(1.0).to_bits()), (1_f64.to_bits(), 0_f64.to_bits()));
    }

    /// Mean and variance of many draws.
    fn moments(draw: impl Fn(&mut Rng) -> f64) -> (f64, f64) {
        const DRAWS: u32 = 200_000;
        let mut rng = Rng::new(7);
        let all: Vec<f64> = (0..DRAWS).map(|_| draw(&mut rng)).collect();
        let mean = all.iter().sum::<f64>() / f64::from(DRAWS);
        let variance = all.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / f64::from(DRAWS);
        (mean, variance)
    }

    #[track_caller]
    fn close(what: f64, to: f64, within: f64) {
        assert!((what - to).abs() <= within, "{what} is not {to} ± {within}");
    }

    #[test]
    fn draws_have_the_moments_of_their_distribution() {
        // Bounds are five standard errors, which a right draw exceeds once in two million seeds.
        let (mean, variance) = moments(unit);
        close(mean, 0.5, 0.0033);
        close(variance, 1.0 / 12.0, 0.001);
        let (mean, variance) = moments(normal);
        close(mean, 0.0, 0.0112);
        close(variance, 1.0, 0.016);
        let (mean, variance) = moments(|rng| exponential(rng, 4.0));
        close(mean, 4.0, 0.045);
        close(variance, 16.0, 0.51);
        let (mean, variance) = moments(|rng| factor(rng, 0.4));
        close(mean, 1.0, 0.0047);
        close(variance, (0.16_f64).exp() - 1.0, 0.0056);
        let (mean, _) = moments(|rng| log_normal(rng, 60.0, 1.2));
        close(mean, 60.0 * (0.72_f64).exp(), 2.5);
        // The mean of a bounded Pareto distribution in closed form.
        let (alpha, low, high) = (1.1_f64, 300.0_f64, 3_600.0_f64);
        let scale = low.powf(alpha) / (1.0 - (low / high).powf(alpha));
        let truth =
            scale * alpha / (alpha - 1.0) * (low.powf(1.0 - alpha) - high.powf(1.0 - alpha));
        let (mean, _) = moments(|rng| pareto(rng, alpha, low, high));
        close(mean, truth, 8.0);
    }

    #[test]
    fn a_bounded_pareto_stays_within_its_bounds() {
        let mut rng = Rng::new(3);
        let all: Vec<f64> = (0..20_000).map(|_| pareto(&mut rng, 1.1, 300.0, 3_600.0)).collect();
        assert!(all.iter().all(|x| (300.0..=3_600.1).contains(x)));
        assert!(all.iter().any(|x| *x > 3_300.0) && all.iter().any(|x| *x < 305.0));
    }
}
