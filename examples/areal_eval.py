"""python examples/areal_eval.py valid_dataset.path=examples/math/problems.jsonl valid_dataset.limit=4

AReaL's evaluation script, for agentflow: configuration, initialize, submit, wait, statistics, destroy. With
--config FILE.yaml it takes AReaL's own files; scheduler.type and rollout.backend in them say what starts which workers.
"""

import argparse

from agentflow import BlockingController, load_config, tabulate_stats
from agentflow.datasets import open_dataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config")
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    config, notes = load_config(arguments.config, arguments.overrides)
    print("\n".join(notes))

    data = config.valid_dataset
    valid_dataset = open_dataset(data.path, limit=data.limit, shuffle=data.shuffle, seed=config.seed)

    rollout = BlockingController(config)
    rollout.initialize()
    try:
        for index in range(len(valid_dataset)):
            rollout.submit(
                valid_dataset.item(index),
                workflow="agentflow.workflows.RLVRWorkflow",
                workflow_kwargs={
                    "reward_fn": "math_reward",
                    "gconfig": config.gconfig,
                    "tokenizer": config.tokenizer_path,
                    "enable_thinking": False,
                },
                group_size=config.n_samples,
            )
        rollout.wait(len(valid_dataset), timeout=3600)
        print(f"Evaluation results:\n{tabulate_stats(rollout.export_stats())}")
    finally:
        rollout.destroy()


if __name__ == "__main__":
    main()
