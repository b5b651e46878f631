"""The points of the statement, one function each; a point that does not apply says so in words."""

from __future__ import annotations

import math
from typing import Any

from sfumato.release.statement.numbers import epsilon, show, up
from sfumato.release.statement.wording import count_words, neighbour_words, relation_words

PUBLIC_DATA_KEYS = ("name", "provenance", "records", "shape", "classes")
WHOLE = "no subsampling"  # as a sampler that takes every record calls itself
PAPER = "paper accounting, not a guarantee of this software"
ON_DEVICE = "a counter-based generator on the device"  # how the source of a run's noise begins where it ran on CUDA
STATUS = {"committed": "finished", "begun": "unfinished (charged)", "reserved": "unfinished (charged)"}
RUN_KEYS = ("run", "method", "epsilon", "delta", "relation", "unit", "mu", "state", "status")


def guarantee(plan: dict[str, Any]) -> dict[str, Any]:
    """Point 1."""
    given = plan["guarantee"]
    data = plan["data"]
    relation = relation_words(given["relation"], data["count_public"])
    return {
        "summary": f"({epsilon(given['epsilon'])}, {show(given['delta'])})-differential privacy, {relation}, "
        f"unit: one {given['unit']}.",
        "epsilon": given["epsilon"],
        "delta": given["delta"],
        "mu": given.get("mu"),
        "advantage": given.get("advantage"),
        "model": model_words(plan.get("federated")),
        "relation": given["relation"],
        "relation_in_words": relation,
        "neighbours": neighbour_words(given["relation"], given["unit"], data["count_public"]),
        "unit": given["unit"],
        "sensitivity": "global: the worst case over all data sets",
        "size": count_words(data),
        "at_deltas": [{"delta": delta, "epsilon": up(eps, 6)} for delta, eps in _at_deltas(plan)],
        "curve": [list(point) for point in plan.get("curve") or ()],
        **({"federated": plan["federated"]} if plan.get("federated") else {}),
    }


def model_words(federated: dict[str, Any] | None) -> str:
    """Who holds the data, and who sees what of them."""
    if federated is None:
        return "central: one trusted custodian holds the data and runs this software"
    held = f"federated: {len(federated['sites'])} sites hold their own records"
    if federated["trust"] == "trusted":
        return f"{held}, and a trusted coordinator sees a sum of each and adds the noise"
    loss = f"up to {federated['dropouts']} of them may be missing from a sum and {federated['colluders']} may collude"
    cost = federated["log10_of_shares"]
    more = "" if cost is None else f" (in shares, noise costs less than 1e{math.ceil(cost) + 1} of epsilon more)"
    seen = "a coordinator that is honest but curious sees noisy sums alone"
    return f"{held} and add shares of the noise{more}, {loss}; {seen}"


def _at_deltas(plan: dict[str, Any]) -> list[tuple[float, float]]:
    """Epsilon at the three customary deltas, as far as mu or the curve gives it."""
    wanted = sorted({1e-5, 1e-6, float(f"{plan['data']['records'] ** -1.1:.3g}")}, reverse=True)
    return [(delta, eps) for delta in wanted if delta < 1 and (eps := _epsilon_at(plan, delta)) is not None]


def _epsilon_at(plan: dict[str, Any], delta: float) -> float | None:
    given = plan["guarantee"]
    if given["delta"] == delta:
        return float(given["epsilon"])
    if given.get("mu") is not None:
        from sfumato.accounting.gaussian import epsilon_of

        return epsilon_of(delta, given["mu"])
    # Epsilon falls as delta grows, so any point at a smaller delta is a valid bound.
    points = [(given["delta"], given["epsilon"]), *(plan.get("curve") or ())]
    return min((eps for at, eps in points if at <= delta), default=None)


def coverage(released: list[str]) -> dict[str, Any]:
    """Point 2."""
    return {
        "summary": f"Covered: {', '.join(released)}, and all that is computed from them.",
        "released": list(released),
        "not_covered": [
            "checkpoints, caches and any other working file of the run, which stay private",
            "logs and measurements made on the real images outside this release",
            "the real images themselves, wherever they are kept",
        ],
        "attacker": "May read every file of this release, the source code and all settings, may know all records "
        "but one, and has any computing power short of breaking the noise generator of point 8. Does not see the noise "
        "or the memory of the machine that ran it.",
        "intermediate_releases_covered": True,
        "intermediate_in_words": "Yes: every value that was computed from the real images and left the privacy barrier "
        "is one of the events of point 3.",
    }


def mechanisms(plan: dict[str, Any]) -> dict[str, Any]:
    """Point 3."""
    enforced = "each contribution is projected onto its bound as the last step before the sum"
    events = [{"bound_enforced": enforced} | dict(crossing) for crossing in plan["crossings"]]
    names = ", ".join(f"{event['name']} ({event['mechanism']}, {_times(event)})" for event in events)
    size = "the public count" if plan["data"]["count_public"] else "the declared size"
    return {
        "summary": f"Noisy queries to the real images: {names}."
        if events
        else "Does not apply: nothing that depends on the real images left the barrier.",
        "events": events,
        "accounted": _accounted(plan),
        "labels": label_words(plan.get("labels") or {}),
        "normaliser": f"Noise is added to sums; a divisor is a constant made from {size}, never what was drawn.",
    }


def _accounted(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """What the accountant saw, in absolute numbers, from which anyone can derive the guarantee again."""
    if "events" in plan:
        return list(plan["events"])
    relation = plan["guarantee"]["relation"]
    keys = ("mechanism", "sigma", "sensitivity", "bound", "times")
    # A plan that lists no events: what was sampled cannot be told from the words of a crossing.
    whole = [crossing for crossing in plan["crossings"] if crossing.get("sampling", WHOLE) == WHOLE]
    return [{key: crossing[key] for key in keys} | {"relation": relation} for crossing in whole]


def _times(event: dict[str, Any]) -> str:
    times = event.get("times", 1)
    return "once" if times == 1 else f"{show(times)} times"


def label_words(labels: dict[str, Any]) -> str:
    """How the labels of synthetic images are chosen, and what that costs."""
    return {
        "uniform": "Drawn evenly over the classes; costs no privacy.",
        "declared": "Drawn from shares that were declared public; costs no privacy.",
        "private": "Drawn from a private histogram of the classes, which is charged as an event above.",
    }.get(str(labels.get("kind")), "Does not apply: no labels are drawn.")


def accountant(plan: dict[str, Any], version: str) -> dict[str, Any]:
    """Point 4."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    given = plan["guarantee"]
    try:
        library = f"dp-accounting {installed('dp-accounting')}"
    except PackageNotFoundError:
        library = "dp-accounting, not installed when this was written"
    return {
        "summary": f"{given['accountant']}; the figure does not depend on the data.",
        "name": given["accountant"],
        "version": f"sfumato {version}, {library}",
        "discretisation": _grid(given),
        "data_independent": True,
        "second_opinion": plan.get("second_opinion") or "Does not apply: no second accountant covers these events.",
        "paper": _paper(plan.get("paper")),
    }


def _grid(given: dict[str, Any]) -> str:
    if given.get("discretisation") is not None:
        return f"privacy losses on a grid of {show(given['discretisation'])}, rounded against us"
    exact = "exact" in given["accountant"].lower()
    return "Does not apply: closed form." if exact else "as the accountant's library sets it"


def _paper(paper: dict[str, Any] | None) -> dict[str, Any] | str:
    """The paper's own figure, which is never printed without its warning."""
    if not paper:
        return "Does not apply: the paper gives no formula for these events."
    note = str(paper.get("note") or "")
    return paper | {"note": note if PAPER in note else f"{PAPER}: {note}".rstrip(": ")}


def declared_public(plan: dict[str, Any], public_data: dict[str, Any] | None) -> dict[str, Any]:
    """Point 5."""
    data = plan["data"]
    channels, height, width = data["shape"]
    return {
        "summary": "Known to all without looking at the images: the classes, the image size, "
        + ("the number of records, " if data["count_public"] else "a declared size, ")
        + "and every setting of the method.",
        "data_name": data["name"],
        "data_public": bool(data.get("public")),
        "classes": list(data["classes"]),
        "image_size": f"{width} x {height} pixels, {'grey' if channels == 1 else 'colour'}",
        "shape": list(data["shape"]),
        "size": count_words(data),
        "scaling": "Pixel values 0 to 255 are mapped by fixed constants; no statistic of the data is used.",
        "label_prior": label_words(plan.get("labels") or {}),
        "label_weights": (plan.get("labels") or {}).get("weights"),
        "settings": plan["settings"],
        "public_data": {key: public_data[key] for key in PUBLIC_DATA_KEYS if public_data.get(key) is not None}
        if public_data
        else "Does not apply: no public images and no pre-trained network were used.",
    }


def other_releases(plan: dict[str, Any], account: dict[str, Any] | None) -> dict[str, Any]:
    """Point 7. Of other runs only the listed keys are told, and of no account but that of the data's own name."""
    if account is None:
        why = "the set is public" if plan["data"].get("public") else "no lasting account was kept for these data"
        why = "every site keeps an account of its own" if plan.get("federated") else why
        return {"summary": f"Does not apply: {why}, so no other runs are counted.", "runs": []}
    if not account.get("named", True):
        why = "these data came without a name, and what the ledger counts against their records is not told"
        return {"summary": f"Does not apply: {why}.", "runs": [], "named": False}
    runs = [_run(run) for run in account.get("runs", ())]
    total = account["epsilon_total"]
    delta = account["delta"]
    together = (
        "no bound is known for all runs together"
        if total is None
        else f"{'together with this one they give' if runs else 'this one gives'} epsilon = {epsilon(total)} "
        f"at delta = {show(delta)}"
    )
    number = f"{len(runs)} other run{'s' * (len(runs) != 1)}" if runs else "No other run"
    date = f"made on {account['made']}" if account.get("made") else "whose date is not known"
    return {
        "summary": f"{number} under the name of these data {'are' if len(runs) > 1 else 'is'} recorded in this ledger, "
        f"{date}; {together}. Runs on other data that share records with these are counted, and told to the custodian "
        "alone.",
        "runs": runs,
        "epsilon_total": total,
        "delta": delta,
        "made": account.get("made"),
    }


def _run(run: dict[str, Any]) -> dict[str, Any]:
    told = {key: run[key] for key in RUN_KEYS if run.get(key) is not None}
    return told | {"status": STATUS.get(told["status"], told["status"])} if "status" in told else told


def randomness(plan: dict[str, Any], noise: dict[str, Any]) -> dict[str, Any]:
    """Point 8."""
    samplings = sorted({str(crossing.get("sampling", WHOLE)) for crossing in plan["crossings"]})
    used = "; ".join(f"{WHOLE}: every record takes part" if name == WHOLE else name for name in samplings)
    return {
        "summary": f"Noise from {noise['source']}; sampler: {noise['sampler']}.",
        "source": noise["source"],
        "sampler": noise["sampler"],
        "sampling": used or "Does not apply: no record was drawn.",
        "user_seed": "Reaches public choices only (starting weights, latent draws), never the noise.",
        **({"process": noise["process"]} if "process" in noise else {}),
    }


def deviations(plan: dict[str, Any]) -> dict[str, Any]:
    """Point 9."""
    departures = list(plan.get("deviations") or ())
    caveats = list(plan.get("warnings") or ())
    if plan["data"]["unit"] == "record":
        caveats.append("Near-duplicate images are separate records; the guarantee covers one of them at a time.")
    return {
        "summary": f"{len(departures)} deviation{'s' * (len(departures) != 1)} from the published algorithm."
        if departures
        else "Does not apply: the published algorithm is followed.",
        "deviations": departures,
        "caveats": caveats,
        "warnings": list(plan.get("warnings") or ()),
    }


def audit(found: dict[str, Any] | None, noise: dict[str, Any]) -> dict[str, Any]:
    """Point 10. An audit can refute a guarantee; the proof is the accounting."""
    if found is None:
        return {"summary": "Does not apply: no audit was run for this release; the guarantee rests on the accounting."}
    where = f" {_where(found['audited_on'], noise)}" if "audited_on" in found else ""
    count = len(found.get("checks", ()))
    results = f": {show(count)} checks, each listed with what it saw" if count else ""
    passed = found.get("verdict") == "pass"
    verdict = f"Nothing was found that refutes the guarantee{results}" if passed else "It did not pass"
    return found | {"summary": f"Audited{where}. {verdict}."}


def _where(device: object, noise: dict[str, Any]) -> str:
    """On which device, and whether it was that of the run, which the source of the noise tells."""
    run = "cuda" if str(noise.get("source", "")).startswith(ON_DEVICE) else "cpu"
    if device == run:
        return "on the device of the run"
    named = {"cpu": "the CPU", "cuda": "CUDA"}
    return f"on {named.get(str(device), device)}; the run was made on {named[run]}, whose path was not audited"
