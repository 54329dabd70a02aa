"""Type hints as JSON Schema, and values of them from JSON."""

import dataclasses
import datetime
import enum
import unittest
from typing import Annotated, Any, Dict, List, Literal, Optional, Set, Tuple, TypedDict, Union

from aibridge import InvalidParameter, Length, Pattern, Range, schema


class Mode(enum.Enum):
    ECO = "eco"
    BOOST = "boost"


@dataclasses.dataclass
class Color:
    red: Annotated[int, Range(0, 255)]
    green: Annotated[int, Range(0, 255)] = 0
    tags: List[str] = dataclasses.field(default_factory=list)


class Place(TypedDict, total=False):
    room: str


@dataclasses.dataclass
class Tree:
    branches: "List[Tree]"


class Schemas(unittest.TestCase):
    def test_a_type_that_holds_itself_is_refused(self) -> None:
        def plant(tree: Tree) -> None:
            pass

        fields, _ = schema.parameters(plant)
        with self.assertRaises(TypeError):
            schema.object_schema(fields)

    def test_types_have_schemas(self) -> None:
        for hint, want in {
            int: {"type": "integer"},
            Any: {},
            Optional[str]: {"anyOf": [{"type": "string"}, {"type": "null"}]},
            Union[int, str]: {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            Literal["on", "off"]: {"enum": ["on", "off"]},
            Mode: {"enum": ["eco", "boost"]},
            List[int]: {"type": "array", "items": {"type": "integer"}},
            Set[str]: {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            Tuple[int, str]: {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            },
            Tuple[float, ...]: {"type": "array", "items": {"type": "number"}},
            Dict[str, bool]: {"type": "object", "additionalProperties": {"type": "boolean"}},
            Annotated[int, Range(0, 255), "how bright"]: {
                "type": "integer",
                "minimum": 0,
                "maximum": 255,
                "description": "how bright",
            },
            Annotated[str, Length(1, 8), Pattern("^a")]: {"type": "string", "minLength": 1, "maxLength": 8, "pattern": "^a"},
            Annotated[List[int], Length(maximum=3)]: {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
            datetime.datetime: {"type": "string", "format": "date-time"},
        }.items():
            with self.subTest(hint):
                self.assertEqual(schema.schema_of(hint), want)

    def test_dataclasses_and_typed_dicts_are_objects(self) -> None:
        self.assertEqual(schema.schema_of(Color)["required"], ["red"])
        self.assertEqual(
            schema.schema_of(Color)["properties"]["green"], {"type": "integer", "minimum": 0, "maximum": 255, "default": 0}
        )
        self.assertEqual(
            schema.schema_of(Place),
            {"type": "object", "properties": {"room": {"type": "string"}}, "required": [], "additionalProperties": False},
        )

    def test_what_json_cannot_have_is_refused_when_declared(self) -> None:
        for hint in (complex, Dict[int, str], object.__init__):
            with self.subTest(hint), self.assertRaises(TypeError):
                schema.schema_of(hint)

    def test_functions_have_parameters(self) -> None:
        def heat(celsius: Annotated[float, Range(5, 30)], mode: Mode = Mode.ECO) -> None:
            """Aim at a temperature.

            It is kept until the next one.

            Args:
                celsius: the temperature
                    to aim at
                mode: how quickly
            """

        fields, _ = schema.parameters(heat)
        described = schema.object_schema(fields)
        self.assertEqual(described["required"], ["celsius"])
        self.assertEqual(described["properties"]["celsius"]["description"], "the temperature to aim at")
        self.assertEqual(
            described["properties"]["mode"], {"enum": ["eco", "boost"], "description": "how quickly", "default": "eco"}
        )
        self.assertEqual(schema.summary(heat), "Aim at a temperature. It is kept until the next one.")

    def test_a_function_without_hints_is_refused(self) -> None:
        def bare(x):  # type: ignore[no-untyped-def]
            pass

        def many(*xs: int) -> None:
            pass

        for f in (bare, many):
            with self.assertRaises(TypeError):
                schema.parameters(f)


class Values(unittest.TestCase):
    def test_values_become_what_the_hints_say(self) -> None:
        for hint, value, want in [
            (int, 3.0, 3),
            (float, 3, 3.0),
            (Mode, "eco", Mode.ECO),
            (Optional[int], None, None),
            (Union[int, str], "x", "x"),
            (Tuple[int, str], [1, "a"], (1, "a")),
            (Set[int], [1, 2], {1, 2}),
            (Color, {"red": 1}, Color(1)),
            (List[Color], [{"red": 1, "tags": ["a"]}], [Color(1, 0, ["a"])]),
            (bytes, "aGk=", b"hi"),
            (datetime.datetime, "2026-01-02T03:04:05Z", datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)),
            (Place, {"room": "hall"}, {"room": "hall"}),
            (Any, [1, {"a": None}], [1, {"a": None}]),
        ]:
            with self.subTest(hint=hint, value=value):
                self.assertEqual(schema.from_json(hint, value, "params.x"), want)

    def test_what_does_not_fit_is_named(self) -> None:
        for hint, value, where in [
            (int, True, "params.x"),
            (int, 1.5, "params.x"),
            (int, "1", "params.x"),
            (float, float("nan"), "params.x"),
            (bool, 1, "params.x"),
            (Literal[1], True, "params.x"),
            (Mode, "fast", "params.x"),
            (List[int], [1, "a"], "params.x[1]"),
            (Dict[str, int], {"a": "b"}, "params.x.a"),
            (Tuple[int, int], [1], "params.x"),
            (Color, {"red": 256}, "params.x.red"),
            (Color, {}, "params.x.red"),
            (Color, {"red": 1, "blue": 2}, "params.x.blue"),
            (Annotated[float, Range(0)], -1, "params.x"),
            (Annotated[str, Length(2)], "a", "params.x"),
            (Annotated[str, Pattern("^a$")], "b", "params.x"),
            (bytes, "*", "params.x"),
            (datetime.datetime, "yesterday", "params.x"),
        ]:
            with self.subTest(hint=hint, value=value), self.assertRaises(InvalidParameter) as caught:
                schema.from_json(hint, value, "params.x")
            self.assertEqual(caught.exception.details["param_name"], where)
            self.assertTrue(caught.exception.details["reason"])

    def test_results_become_json(self) -> None:
        self.assertEqual(schema.to_json(Color(1)), {"red": 1, "green": 0, "tags": []})
        self.assertEqual(schema.to_json({Mode.ECO.value: (Mode.BOOST, {1})}), {"eco": ["boost", [1]]})
        with self.assertRaises(TypeError):
            schema.to_json(object())

    def test_pydantic_models_are_understood(self) -> None:
        try:
            import pydantic
        except ImportError:
            self.skipTest("pydantic is not installed")

        class Lamp(pydantic.BaseModel):
            name: str
            watts: int = pydantic.Field(ge=1, le=100)

        class Room(pydantic.BaseModel):
            lamps: List[Lamp]

        self.assertEqual(schema.schema_of(Lamp)["properties"]["watts"]["maximum"], 100)
        self.assertEqual(schema.schema_of(Room)["properties"]["lamps"]["items"]["properties"]["watts"]["minimum"], 1)
        self.assertNotIn("$ref", str(schema.schema_of(Room)))
        self.assertEqual(schema.from_json(Room, {"lamps": [{"name": "a", "watts": 1}]}, "params").lamps[0].watts, 1)
        self.assertEqual(schema.from_json(Lamp, {"name": "a", "watts": 3}, "params").watts, 3)
        self.assertEqual(schema.to_json(Lamp(name="a", watts=3)), {"name": "a", "watts": 3})
        with self.assertRaises(InvalidParameter) as caught:
            schema.from_json(Lamp, {"name": "a", "watts": 0}, "params.lamp")
        self.assertEqual(caught.exception.details["param_name"], "params.lamp.watts")


if __name__ == "__main__":
    unittest.main()
