"""The configuration: frozen dataclasses without defaults, and every check on them."""

from passk_jax.config.checks import flatten, nearest, unknown_key
from passk_jax.config.conversion import (
    from_config_dict,
    from_json_dict,
    to_json,
    with_new_options,
)
from passk_jax.config.evaluation_config import CheckpointConfig, EvalConfig
from passk_jax.config.experiment import (
    AdvantageConfig,
    DataConfig,
    ExperimentConfig,
    InitConfig,
    LogConfig,
    MeshConfig,
    RewardConfig,
    SamplingConfig,
    TaskConfig,
    TrainConfig,
    VerifierConfig,
    WarmStartConfig,
    to_dict,
)
from passk_jax.config.learning_config import (
    AGGREGATIONS,
    KL_ESTIMATORS,
    LossConfig,
    OptimizerConfig,
)
from passk_jax.config.model_config import (
    NO_ADAPTERS,
    NO_VISION,
    ArchConfig,
    LoraConfig,
    ModelConfig,
    VisionConfig,
)
from passk_jax.config.sampling_options import SamplingOptions, sampling_options
from passk_jax.config.stages import Stage, errors_of, stage_at, stages_of
