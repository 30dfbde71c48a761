"""What pyproject.toml cannot say: a wheel has configs/ inside the package."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=['passk_jax*']),
        *(f'passk_jax.{name}' for name in find_packages(include=['configs*'])),
    ],
    package_dir={'passk_jax.configs': 'configs'},
)
