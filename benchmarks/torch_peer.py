"""Runs torch's side of a comparison: ``python -m benchmarks.torch_peer JOB --work=``.

It runs under a python that has torch, transformers and TRL but not our library:

* ``generate`` is transformers' ``generate`` with ``num_return_sequences``: its dynamic
  cache, scaled dot-product attention.
* ``step`` is one step of TRL's GRPOTrainer, which generates the same way.
* ``matmul`` is one large product of matrices.
"""

import argparse
import tempfile
from typing import Any

import torch
import transformers

from benchmarks import work as works
from benchmarks import worker
from benchmarks.work import Work

MATMUL = 2048


def load(source: str) -> Any:
    """Loads transformers' model of a directory."""
    return transformers.AutoModelForCausalLM.from_pretrained(
        source, dtype=torch.float32, attn_implementation='sdpa'
    )


def check(model: Any, work: Work) -> list[float]:
    """Computes log-probabilities of ``work.check_tokens``, summed over a response."""
    prompts = torch.from_numpy(works.prompt_tokens(work)).long()
    responses = torch.from_numpy(works.check_tokens(work)).long()
    with torch.no_grad():
        logits = model(torch.cat([prompts, responses], 1)).logits
    logits = logits[:, work.prompt_tokens - 1 : -1].log_softmax(-1)
    return logits.gather(2, responses[..., None]).sum((1, 2)).tolist()


def generate(model: Any, work: Work, ready: dict[str, Any]) -> None:
    """Samples once a repetition."""
    prompts = torch.from_numpy(works.prompt_tokens(work)).long()
    mask = torch.ones_like(prompts)
    torch.manual_seed(0)
    for report in worker.repetitions(ready):
        with torch.inference_mode():
            output = model.generate(
                prompts,
                attention_mask=mask,
                do_sample=True,
                temperature=1.0,
                top_k=0,
                top_p=1.0,
                num_return_sequences=work.rollouts,
                max_new_tokens=work.response_tokens,
                eos_token_id=work.end,
                pad_token_id=works.PAD,
            )
        report['tokens'] = output.shape[0] * (output.shape[1] - work.prompt_tokens)


def tokenizer(work: Work) -> Any:
    """Makes a tokenizer whose tokens are numbers."""
    import tokenizers

    vocab = {str(i): i for i in range(work.vocab)} | {'<end>': work.end}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, '0'))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    # Nothing is padded, and a pad that is a number would be missing from the text.
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token='<end>', eos_token='<end>'
    )


class Measured(transformers.TrainerCallback):
    """Reports each step of a trainer, which waits for the request of the next."""

    def __init__(self, ready: dict[str, Any], written: list[int]):
        self._repetitions = worker.repetitions(ready)
        self._written = written
        self._report: dict[str, Any] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._report = next(self._repetitions, {})

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._report['tokens'] = sum(self._written)
        self._written.clear()
        report = next(self._repetitions, None)
        control.should_training_stop = report is None
        self._report = {} if report is None else report


def rl_step(model: Any, work: Work, micro_batches: int, ready: dict[str, Any]) -> None:
    """Runs steps of TRL's GRPOTrainer, without a reference model."""
    import datasets
    import trl

    written: list[int] = []

    def rewards(completions: list[str], **_: Any) -> list[float]:
        written.append(sum(len(works.to_tokens(text)) for text in completions))
        return [works.reward(text) for text in completions]

    prompts = [{'prompt': works.to_text(row)} for row in works.prompt_tokens(work)]
    with tempfile.TemporaryDirectory() as directory:
        config = trl.GRPOConfig(
            output_dir=directory,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            per_device_train_batch_size=work.sequences // micro_batches,
            gradient_accumulation_steps=micro_batches,
            num_generations=work.rollouts,
            max_completion_length=work.response_tokens,
            beta=0.0,
            epsilon=0.2,
            loss_type='grpo',
            learning_rate=1e-6,
            lr_scheduler_type='constant',
            adam_beta1=0.9,
            adam_beta2=0.999,
            weight_decay=0.0,
            max_grad_norm=0.0,
            max_steps=1_000_000,
            shuffle_dataset=False,
            logging_strategy='no',
            save_strategy='no',
            report_to=[],
            disable_tqdm=True,
        )
        trl.GRPOTrainer(
            model=model,
            reward_funcs=rewards,
            args=config,
            train_dataset=datasets.Dataset.from_list(prompts),
            processing_class=tokenizer(work),
            callbacks=[Measured(ready, written)],
        ).train()


def matmul(ready: dict[str, Any]) -> None:
    """Multiplies two float32 matrices four times; reports the GFLOPs as ``gflop``."""
    x = torch.randn(MATMUL, MATMUL)
    y = torch.empty_like(x)
    for report in worker.repetitions(ready):
        for _ in range(4):
            torch.matmul(x, x, out=y)
        report['gflop'] = 4 * 2 * MATMUL**3 / 1e9


def main() -> None:
    """Reads the command line and does the job."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('job', choices=['generate', 'step', 'matmul'])
    parser.add_argument('--work', help='JSON of a work')
    parser.add_argument('--model', help='directory of the weights')
    parser.add_argument('--micro_batches', type=int, default=1, help='of an update')
    args = parser.parse_args()
    torch.set_num_threads(1)
    ready = {'torch': torch.__version__, 'transformers': transformers.__version__}
    if args.job == 'matmul':
        matmul(ready)
        return
    work, model = Work.from_json(args.work), load(args.model)
    ready['check'] = check(model, work)
    if args.job == 'generate':
        generate(model, work, ready)
    else:
        rl_step(model, work, args.micro_batches, ready)


if __name__ == '__main__':
    main()
