"""Files as mpiq-train writes them, for the tests of what reads them."""
import csv

HEAD = ("method,feedback,seed,ranks,network,parameters,optimizer,adapt,half_batches,batch,rate,epoch,step,loss,accuracy,train_s,"
        "compute_s,reduce_s,update_s,encode_s,decode_s,wait_s,sent_bytes,link,"
        "oversubscribed").split(",")


def rows_of(method="mpi", seed=1, accuracies=(0.9, 0.95), step_s=0.01, **changes):
    """A test after each epoch of 100 steps; a step computes for 4 ms and updates for 1 ms."""
    for i, accuracy in enumerate(accuracies, 1):
        steps = 100 * i
        row = {"method": method, "feedback": 1, "seed": seed, "ranks": 2, "network": "mlp:64x64", "parameters": 50000,
               "optimizer": "sgd", "adapt": "after", "half_batches": 0, "batch": 200, "rate": 0.1, "epoch": i, "step": steps,
               "loss": 1.0 / i, "accuracy": accuracy, "train_s": step_s * steps, "compute_s": 4e-3 * steps,
               "reduce_s": (step_s - 5e-3) * steps, "update_s": 1e-3 * steps, "encode_s": 0, "decode_s": 0, "wait_s": 0,
               "sent_bytes": "" if method == "mpi" else 50000 * steps, "link": "", "oversubscribed": 0}
        yield {**row, **changes}


def write(path, *runs):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, HEAD, lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for run in runs for row in run)
    return path


def three_methods(path, **changes):
    """Dense, bf16 and onebit with two seeds each; onebit takes half the time of a dense step and is half a point worse."""
    return write(path, *(rows_of(m, seed, (0.9, last), step_s * (1 + 0.01 * seed), **changes) for seed in (1, 2)
                         for m, last, step_s in (("mpi", 0.95 + 0.01 * seed, 0.02), ("bf16", 0.95 + 0.01 * seed, 0.015),
                                                 ("onebit", 0.945 + 0.01 * seed, 0.01))))
