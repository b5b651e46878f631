"""What the papers' settings cost."""

from __future__ import annotations

from sfumato.bench import budgets


def test_exact_accounting_allows_more_steps_than_theorem_3():
    rows = budgets.votes()
    assert len(rows) == 12
    for row in rows:
        assert int(row["steps, exactly"]) > int(row["steps by theorem 3"])
        assert float(row["their epsilon, exactly"]) < float(row["recipe"].rsplit("-", 1)[1])
    assert rows[0]["recipe"] == "datalens-paper-mnist-1" and rows[0]["sensitivity"] == "28.3"


def test_the_splits_of_a_budget_give_each_part_its_noise(monkeypatch):
    monkeypatch.setattr(budgets, "SPLITS", ["dpaf-tableVII-20-20-60", "dpaf-tableVII-20-60-20"])
    little, much = (row for row in budgets.splits() if row["epsilon"] == "10")
    assert float(little["conv2"]) > float(much["conv2"]) and float(little["aggregate"]) < float(much["aggregate"])
    assert float(little["by theorem 6"]) > 0
