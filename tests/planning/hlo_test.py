import jax
import pytest
from jax import numpy as jnp

from passk_jax.planning import hlo

# What a TPU's compiler writes: no known_trip_count, layouts that name a memory, a
# limit that reaches the inner loop through the tuple it carries.
LOOPS = """HloModule jit_f, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

%in_body (p: (s32[], f32[8], s32[])) -> (s32[], f32[8], s32[]) {
  %p = (s32[]{:T(128)}, f32[8]{0:T(256)S(1)}, s32[]{:T(128)}) parameter(0)
  %i = s32[]{:T(128)} get-tuple-element(%p), index=0
  %x = f32[8]{0:T(256)S(1)} get-tuple-element(%p), index=1
  %n = s32[]{:T(128)} get-tuple-element(%p), index=2
  %two = s32[]{:T(128)} constant(2)
  %next = s32[]{:T(128)} add(%i, %two)
  %y = f32[8]{0:T(256)S(1)} negate(%x), frontend_attributes={kernel_metadata={
{"k": 1}
}}, metadata={op_name="jit(f)/neg"}
  ROOT %t = (s32[]{:T(128)}, f32[8]{0:T(256)S(1)}, s32[]{:T(128)}) tuple(%next, %y, %n)
}

%go_in (q: (s32[], f32[8], s32[])) -> pred[] {
  %q = (s32[]{:T(128)}, f32[8]{0:T(256)S(1)}, s32[]{:T(128)}) parameter(0)
  %j = s32[]{:T(128)} get-tuple-element(%q), index=0
  %limit = s32[]{:T(128)} get-tuple-element(%q), index=2
  ROOT %less = pred[]{:T(512)} compare(%j, %limit), direction=LT
}

%out_body (p.1: (s32[], f32[8], s32[], /*index=3*/s32[])) -> (s32[], f32[8], s32[]) {
  %p.1 = (s32[], f32[8]{0}, s32[]) parameter(0)
  %i.1 = s32[] get-tuple-element(%p.1), index=0
  %x.1 = f32[8]{0} get-tuple-element(%p.1), index=1
  %n.1 = s32[] get-tuple-element(%p.1), index=2
  %start = s32[] constant(1)
  %copy = s32[] copy(%start)
  %carried = (s32[], f32[8]{0}, s32[]) tuple(%copy, %x.1, %n.1)
  %loop = (s32[], f32[8]{0}, s32[]) while(%carried), condition=%go_in, body=%in_body
  %x.2 = f32[8]{0} get-tuple-element(%loop), index=1
  %one = s32[] constant(1)
  %next.1 = s32[] add(%one, %i.1)
  ROOT %t.1 = (s32[], f32[8]{0}, s32[]) tuple(%next.1, %x.2, %n.1)
}

%go_on (q.1: (s32[], f32[8], s32[])) -> pred[] {
  %q.1 = (s32[], f32[8]{0}, s32[]) parameter(0)
  %j.1 = s32[] get-tuple-element(%q.1), index=0
  %five = s32[] constant(5)
  ROOT %less.1 = pred[] compare(%j.1, %five), direction=LE
}

ENTRY %main (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  %zero = s32[] constant(0)
  %eight = s32[] constant(8)
  %first = (s32[], f32[8]{0}, s32[]) tuple(%zero, %a, %eight)
  %outer = (s32[], f32[8]{0}, s32[]) while(%first), condition=%go_on, body=%out_body
  ROOT %result = f32[8]{0} get-tuple-element(%outer), index=1
}
"""


def compiled(fn, *shapes):
    """The module of a function of float32 arrays of these shapes."""
    arrays = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return hlo.parse(jax.jit(fn).lower(*arrays).compile().as_text())


def executions(module):
    """Of a choice the branch with most instructions runs."""
    return hlo.executions(
        module, work=lambda computation: len(computation.instructions)
    )


def test_a_module_is_read_into_computations_and_instructions():
    module = hlo.parse(LOOPS)
    assert module.entry == 'main'
    assert len(module.computations) == 5
    body = module.computations['in_body']
    assert body.root == 't'
    assert list(body.instructions) == ['p', 'i', 'x', 'n', 'two', 'next', 'y', 't']
    negate = body.instructions['y']
    assert (negate.opcode, negate.operands) == ('negate', ('x',))
    assert module.computations['main'].instructions['outer'].called('body') == (
        'out_body'
    )


def test_a_layout_says_which_memory_an_array_lies_in():
    instructions = hlo.parse(LOOPS).computations['in_body'].instructions
    (on_chip,), (main,) = instructions['x'].shapes, instructions['n'].shapes
    assert not on_chip.in_memory
    assert main.in_memory
    assert on_chip.size == 8 * 4


@pytest.mark.parametrize(
    ('text', 'size'),
    [
        ('bf16[2,3]{1,0}', 12),
        ('pred[7]', 7),
        ('s4[4]{0}', 2),
        ('f8e4m3fn[5]{0}', 5),
        ('c64[2]', 16),
        ('u32[]', 4),
        ('token[]', 0),
    ],
)
def test_an_array_has_the_bytes_of_its_type(text, size):
    module = hlo.parse(
        f'ENTRY %m (a: s32[]) -> s32[] {{\n  %a = {text} parameter(0)\n}}'
    )
    (shape,) = module.computations['m'].instructions['a'].shapes
    assert shape.size == size


def test_a_loops_length_follows_from_its_counter():
    counts, unknown = executions(hlo.parse(LOOPS))
    # 0, 1 ... 5 outside; 1, 3, 5, 7 inside.
    assert counts == {'main': 1, 'out_body': 6, 'in_body': 6 * 4}
    assert not unknown


@pytest.mark.parametrize(
    ('old', 'new'),
    [
        ('%five = s32[] constant(5)', '%five = s32[] custom-call(%j.1)'),
        ('%zero = s32[] constant(0)', '%zero = s32[] bitcast-convert(%a)'),
        ('add(%one, %i.1)', 'multiply(%one, %i.1)'),
        ('%less.1 = pred[] compare', '%less.1 = pred[] and'),
    ],
)
def test_a_loop_that_does_not_count_is_run_once_and_reported(old, new):
    assert LOOPS.count(old) == 1
    counts, unknown = executions(hlo.parse(LOOPS.replace(old, new)))
    assert counts['out_body'] == 1
    assert unknown == 1


PASSED = """%async_collective_fusion.1 (a.2: s32[], b.2: f32[8]) -> (s32[], f32[8]) {
  %a.2 = s32[] parameter(0)
  %b.2 = f32[8]{0} parameter(1)
  %c.2 = f32[8]{0} negate(%b.2)
  ROOT %t.2 = (s32[], f32[8]{0}) tuple(%a.2, %c.2)
}

"""


def test_a_counter_that_passes_a_fusion_or_a_barrier_still_counts():
    begun = """%nought = s32[] constant(0)
  %go = (s32[], f32[8]{0}) fusion(%nought, %a), calls=%async_collective_fusion.1
  %held = (s32[], f32[8]{0}) opt-barrier(%go)
  %zero = s32[] get-tuple-element(%held), index=0"""
    text = LOOPS.replace('%zero = s32[] constant(0)', begun)
    text = text.replace('ENTRY', PASSED + 'ENTRY')
    counts, unknown = executions(hlo.parse(text))
    assert counts['out_body'] == 6
    assert not unknown
    # A fusion that computes the number says nothing.
    text = text.replace('tuple(%a.2, %c.2)', 'tuple(%d.2, %c.2)').replace(
        '  %c.2 =', '  %d.2 = s32[] negate(%a.2)\n  %c.2 ='
    )
    assert executions(hlo.parse(text))[1] == 1


def test_the_compilers_own_note_counts_first():
    note = 'body=%out_body, backend_config={"known_trip_count":{"n":"9"}}'
    counts, _ = executions(hlo.parse(LOOPS.replace('body=%out_body', note)))
    assert counts['out_body'] == 9


def test_one_iteration_of_the_loop_of_unknown_length_is_counted():
    """With the loops of known length in it."""
    open_end = LOOPS.replace('s32[] constant(5)', 's32[] custom-call(%j.1)')
    module = hlo.parse(open_end)
    counts, unknown = hlo.executions(module, work=lambda computation: 1.0, in_loop=True)
    assert counts == {'out_body': 1, 'in_body': 4}
    assert not unknown


def test_a_program_whose_loops_all_have_a_length_has_no_such_loop():
    with pytest.raises(ValueError, match='no loop whose length is unknown'):
        hlo.executions(hlo.parse(LOOPS), work=lambda computation: 1.0, in_loop=True)


def test_scans_in_scans_are_multiplied():
    def fn(x):
        def inner(x, _):
            return jnp.sin(x @ x), None

        def outer(x, _):
            return jax.lax.scan(inner, x, length=3)[0], None

        return jax.lax.scan(outer, x, length=5)[0]

    counts, unknown = executions(compiled(fn, (4, 4)))
    assert 15 in counts.values()
    assert not unknown


def test_of_a_choice_the_branch_with_most_work_runs():
    def fn(x):
        branches = [jnp.sin, jnp.cos, jnp.tan]
        return jax.lax.switch(jnp.int32(x.sum()), branches, x)

    module, instructions = compiled(fn, (64,)), set()
    for name in module.computations:
        counts, _ = hlo.executions(
            module, work=lambda computation, name=name: computation.name == name
        )
        assert len(counts) == 2
        instructions |= counts.keys()
    # The entry and, whichever has the work, one of three branches.
    assert len(instructions) == 4


def test_a_text_of_something_else_is_refused():
    with pytest.raises(ValueError, match='no ENTRY'):
        hlo.parse('HloModule nothing\n')
