"""Tables of each part."""

from __future__ import annotations

from typing import Any

import numpy as np

Record = dict[str, Any]


def rows_of(part: str, records: list[Record]) -> list[dict[str, Any]]:
    """Return the rows of a part's table."""
    return {
        "oil_flow": _oil_flow,
        "missing_pixels": _missing_pixels,
        "odd": _odd,
        "maps": _maps,
        "views": _views,
        "speed": _speed,
    }[part](records)


def _oil_flow(records: list[Record]) -> list[dict[str, Any]]:
    rows = []
    for method in dict.fromkeys(record["method"] for record in records):
        own = [record for record in records if record["method"] == method]
        row: dict[str, Any] = {"method": method, "seeds": len(own)}
        for name, title in (
            ("errors_2", "errors, 2 dimensions"),
            ("errors_3", "errors, 3 dimensions"),
            ("errors_10", "errors, all"),
            ("test_errors_2", "test part, 2"),
            ("test_errors_3", "test part, 3"),
            ("valid_errors_3", "validation part, 3"),
            ("bound", "bound, nats"),
            ("seconds", "processor seconds"),
        ):
            values = [record[name] for record in own if name in record]
            digits = 0 if name != "seconds" else 1
            row[title] = _median_and_all(values, digits) if values else ""
        rows.append(row)
    return rows


def _median_and_all(values: list[float], digits: int) -> str:
    shown = [f"{value:.{digits}f}" for value in values]
    return shown[0] if len(shown) == 1 else f"{np.median(values):.{digits}f} ({', '.join(shown)})"


def _missing_pixels(records: list[Record]) -> list[dict[str, Any]]:
    return [
        {
            "pictures": record["setting"],
            "method": record["method"],
            "size": record.get("size", ""),
            "RMSE": f"{record['rmse']:.4f}",
            "NLL": f"{record['nll']:.3f}",
            "in 95 % intervals": f"{record['covered']:.1%}",
            "processor seconds": f"{record['seconds']:.0f}",
        }
        for record in records
    ]


def _odd(records: list[Record]) -> list[dict[str, Any]]:
    rows = []
    for kind in ("another class", "upside down"):
        own = [record["aurocs"] for record in records if record["setting"].endswith(kind)]
        for method in own[0] if own else ():
            values = [aurocs[method] for aurocs in own]
            rows.append(
                {
                    "odd": kind,
                    "method": method,
                    "sets": len(values),
                    "AUROC": f"{np.mean(values):.3f}",
                    "lowest": f"{min(values):.3f}",
                }
            )
    return rows


def _maps(records: list[Record]) -> list[dict[str, Any]]:
    return [
        {
            "features": f"{record['setting']} ({record['rows']} rows)",
            "method": record["method"],
            "accuracy, 2 dimensions": f"{record['accuracy']:.4f}",
            "accuracy, all features": f"{record['all_features']:.4f}",
            "processor seconds": f"{record['seconds']:.0f}",
        }
        for record in records
    ]


def _views(records: list[Record]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for record in records:
        for number, name in enumerate(record.get("views", ())):
            own = [users for users in record["users"] if number in users]
            shared = [
                f"{other} {sum(v in users for users in own)}"
                for v, other in enumerate(record["views"])
                if v != number
            ]
            rows.append(
                {
                    "set": record["setting"],
                    "method": f"seed {record['seed']}: {name}",
                    "RMSE": "",
                    "in 95 % intervals": "",
                    "dimensions used": len(own),
                    "private": sum(len(users) == 1 for users in own),
                    "shared with": ", ".join(shared),
                    "processor seconds": f"{record['seconds']:.0f}",
                }
            )
    filled = [record for record in records if "rmse" in record]
    for method in dict.fromkeys(record["method"] for record in filled):
        own = [record for record in filled if record["method"] == method]
        covered = [100.0 * record["covered"] for record in own if "covered" in record]
        rows.append(
            {
                "set": own[0]["setting"],
                "method": method,
                "RMSE": _median_and_all([record["rmse"] for record in own], 4),
                "in 95 % intervals": _median_and_all(covered, 1) if covered else "",
                "dimensions used": "",
                "private": "",
                "shared with": "",
                "processor seconds": f"{np.median([record['seconds'] for record in own]):.0f}",
            }
        )
    return rows


def _speed(records: list[Record]) -> list[dict[str, Any]]:
    rows = []
    for record in records:
        values = {
            name: value for name, value in record.items() if name not in ("part", "method", "setting", "seed")
        }
        for name, value in values.items():
            shown = f"{value:.4g}" if isinstance(value, float) else str(value)
            rows.append({"measure": record["method"], "what": name.replace("_", " "), "value": shown})
    return rows
