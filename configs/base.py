"""All defaults: the paper's "Implementation Details", or another source.

Paper: Pass@k Training, appendix ``sec:implementation_details`` (training and
evaluation) and ``sec:app_exp`` (limits). "Silent" below means that the paper does not
give a value. DAPO is arXiv:2503.14476, whose recipe the paper follows.

This file is not an experiment: ``name`` and ``task`` are empty, which the program
refuses. An experiment imports it and changes values:

    from configs import base

    def get_config():
        config = base.get_config()
        config.name = 'mine'
        ...
        return config
"""

import dataclasses

from ml_collections import ConfigDict

from passk_jax.advantages import all_parameters
from passk_jax.config import sampling_options


def get_config() -> ConfigDict:
    """Returns every key with its default; locked, so a new key is an error."""
    config = ConfigDict()
    config.name, config.seed = '', 0
    # One more than the last stage of the run of init.checkpoint; 0 without one.
    config.stage = -1
    # One stage. The paper's two are Pass@k Training, then Pass@1 Training.
    config.stages = ConfigDict()
    config.model = _model()
    # This works on a single device too; several devices share everything.
    config.mesh = ConfigDict({'data': 1, 'fsdp': -1, 'rollout': 1, 'tensor': 1})
    # Sampling has the mesh of training.
    config.mesh.decode_tensor = 0
    config.init = _init()
    config.task = ConfigDict({'name': '', 'params': ConfigDict()})
    config.data = _data()
    config.sampling = ConfigDict(
        {
            'num_rollouts': 32,
            'max_response_tokens': 4096,
            # Temperature 1 and no truncation, which would bias the ratio. The paper
            # gives both for evaluations only.
            **dataclasses.asdict(sampling_options()),
            # Affects memory only. Decoding all rollouts at once takes the fewest steps;
            # if they do not fit, set this to the free memory of a device (see
            # python -m passk_jax.plan).
            'max_cache_bytes': 0,
            # That of compute_dtype.
            'cache_dtype': '',
        }
    )
    config.advantage = _advantage()
    # Not in the paper. No response to a problem with an unparsed gold could be right.
    config.verifier = ConfigDict({'max_unparsed_golds': 0.01})
    config.reward = ConfigDict({'flip_wrong': 0.0})
    config.loss = _loss()
    config.optimizer = _optimizer()
    config.train = _train()
    config.eval = _eval()
    config.checkpoint = _checkpoint()
    config.log = _log()
    return config.lock()


def _model() -> ConfigDict:
    return ConfigDict(
        {
            # The family of the source.
            'family': '',
            'source': 'Qwen/Qwen2.5-7B-Instruct',
            'tokenizer': 'source',
            # All 0, because the source sets the sizes.
            'arch': {
                'num_layers': 0,
                'embed_dim': 0,
                'num_heads': 0,
                'num_kv_heads': 0,
                'head_dim': 0,
                'mlp_dim': 0,
                'rope_theta': 0.0,
                'norm_eps': 0.0,
                'tie_embeddings': False,
                'num_experts': 0,
                'experts_per_token': 0,
                'norm_topk_prob': False,
                'vision': {
                    'depth': 0,
                    'embed_dim': 0,
                    'num_heads': 0,
                    'mlp_dim': 0,
                    'patch_size': 0,
                    'merge_size': 0,
                    'table_size': 0,
                    'taps': (),
                },
            },
            # Silent; at a learning rate of 1e-6 a bfloat16 weight would not change.
            'param_dtype': 'float32',
            'compute_dtype': 'bfloat16',
            'remat': 'full',
            'attention': 'auto',
            'head_chunk_tokens': 1024,
            'experts': 'auto',
            # Nothing: full fine-tuning.
            'frozen': (),
            # That of param_dtype.
            'frozen_dtype': '',
            # Not in the paper.
            'lora': {'rank': 0, 'alpha': 0.0, 'targets': (), 'source': ''},
            # Not in the paper, whose policies here have no experts.
            'train_vision': False,
            'replay_routing': False,
        }
    )


def _init() -> ConfigDict:
    return ConfigDict(
        {
            'kind': 'hf',
            'checkpoint': '',
            # Not in the paper, whose policies are instruction-tuned already.
            'warm_start': {
                'steps': 200,
                'batch_size': 64,
                'num_problems': 0,
                'demonstrations': 'shortest_path',
                'optimizer': {
                    'name': 'adamw',
                    'learning_rate': 2e-3,
                    'warmup_updates': 20,
                    'schedule': 'constant',
                    'b1': 0.9,
                    'b2': 0.95,
                    'eps': 1e-8,
                    'weight_decay': 0.0,
                    'max_grad_norm': 1.0,
                },
            },
        }
    )


def _data() -> ConfigDict:
    return ConfigDict(
        {
            'dir': '',
            # From the appendix's Enigmata runs; the paper gives none for Qwen2.5.
            'max_prompt_tokens': 4096,
            'overlong': 'drop',
            # Silent. Qwen2.5's chat template then writes its default system prompt.
            'system_prompt': '',
            'chat_template_kwargs': ConfigDict(),
            # The default of Llama 3's own templates.
            'chat_date': '2024-07-26',
            # Silent. The paper's policies are instruction-tuned.
            'few_shot': (),
            'instruction': 'task',
            # The paper gives none; published models take up to 16 million.
            'max_picture_pixels': 0,
            # Not in the paper.
            'blank_pictures': False,
        }
    )


def _advantage() -> ConfigDict:
    """Returns the analytical derivation, the paper's final method.

    The rows of ESTIMATORS declare the parameters, their defaults and their sources.
    """
    return ConfigDict(
        {
            'name': 'pass_at_k',
            # The paper scales no advantage.
            'match_weight_at': 0.0,
            **{p.name: p.default for p in all_parameters()},
        },
        sort_keys=False,
    )


def _loss() -> ConfigDict:
    return ConfigDict(
        {
            'clip_low': 0.2,
            'clip_high': 0.28,
            'aggregation': 'token',
            # "We do not employ any regularization methods, such as KL or Entropy".
            'entropy_coef': 0.0,
            'kl_coef': 0.0,
            # GRPO's estimator (arXiv:2402.03300), for runs with a KL penalty.
            'kl_estimator': 'k3',
            # DAPO's overlong filtering, which the paper removes.
            'mask_truncated': False,
            # Not in the paper; 2 is usual where sampler and learner disagree. With
            # top_p or top_k, the weight includes the probability mass that they keep.
            'sampler_weight_cap': 0.0,
            # Not in the paper; Qwen3 was pretrained with 0.001.
            'router_aux_coef': 0.0,
        }
    )


def _optimizer() -> ConfigDict:
    return ConfigDict(
        {
            'name': 'adamw',
            'learning_rate': 1e-6,
            'warmup_updates': 10,
            # Silent; DAPO's rate is constant after its warm-up.
            'schedule': 'constant',
            # Silent; AdamW's usual betas, and the weight decay and gradient clip common
            # in verl's recipes at this rate and warm-up.
            'b1': 0.9,
            'b2': 0.999,
            'eps': 1e-8,
            'weight_decay': 0.1,
            'max_grad_norm': 1.0,
        }
    )


def _train() -> ConfigDict:
    return ConfigDict(
        {
            # Silent, but for ``fig:overview``: configs/ablations/overview.py.
            'steps': 500,
            'num_prompts': 128,
            # The paper does not say of what; verl counts prompts, DAPO responses.
            'mini_batch_prompts': 32,
            # Silent; DAPO's number.
            'epochs': 1,
            # Affects memory only: 4 prompts are 128 responses per pass.
            'micro_batch_prompts': 4,
            # All of them. Choose fewer if one prompt per device does not fit.
            'micro_batch_rollouts': 0,
            # Affects time only: short responses share rows.
            'packing': 'rows',
            # Where packing is 'prompts'. With log-normal lengths (mean 57, limit 256, 4
            # prompts per pass), pads fill 20 % of the positions with 8 sizes, 11 % with
            # 16 and 78 % without packing. But each size is compiled.
            'pack_sizes': 0,
            # That of the chip.
            'scoped_vmem_kib': -1,
            # "Remove other optimizations": of DAPO's, the paper keeps only clip-higher
            # and the token-level loss. 9 rounds equal verl's max_num_gen_batches=10.
            'dynamic_sampling_rounds': 0,
            # Not in the paper, whose steps draw problems in epochs.
            'follow_difficulty': 0.0,
        }
    )


def _eval() -> ConfigDict:
    return ConfigDict(
        {
            # The picture of ``fig:overview`` has one every 10, which takes twice the
            # time.
            'every': 20,
            'split': 'test',
            'final_split': '',
            'num_problems': 0,
            # 32 for mazes, 8 for every other task.
            'num_responses': 8,
            # All problems: rows that end take the next ones, so no chip waits.
            'batch_size': 0,
            **dataclasses.asdict(sampling_options()),
            'top_p': 0.95,
            # Not in the paper, which gives no intervals.
            'bootstrap_samples': 1000,
            # For people to read; not in the paper.
            'kept_responses': 64,
        }
    )


def _checkpoint() -> ConfigDict:
    return ConfigDict(
        {
            # Silent.
            'every': 20,
            # The newest, and the one before in case it is damaged.
            'keep': 2,
            # Also keep multiples of this, for example for later evaluations; 0: none.
            'keep_every': 0,
            # Also keep the best by an evaluation, for example 'test/pass_at_1'.
            'keep_best': '',
        }
    )


def _log() -> ConfigDict:
    return ConfigDict(
        {
            'rollouts_every': 20,
            # Not in the paper. A diagnosis computes the gradients of up to four
            # estimators: three times as long as the rest of a step of maze_tiny.
            'diagnostics_every': 0,
            # Each bin costs as much as two more estimators.
            'difficulty_bins': 0,
            'tensorboard': True,
            'wandb_project': '',
            'trackio_project': '',
            'aliases': '',
            'watchdog_seconds': 0,
            'heartbeat_seconds': 120,
        }
    )
