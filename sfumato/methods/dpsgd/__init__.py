"""Models with a density or a denoiser, trained by DP-SGD as a whole."""
