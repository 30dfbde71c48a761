import dataclasses

from passk_jax.planning import fits, summary, topologies
from passk_jax.planning.analysis import Analysis, Memory
from passk_jax.planning.chips import GIB
from passk_jax.planning.flops import Flops
from passk_jax.planning.hlo_costs import Costs
from passk_jax.planning.programs import shard_bytes
from passk_jax.planning.remedies import Way


def analysed(builder, topology, name, **memory):
    sizes = {'arguments': GIB, 'outputs': 0.0, 'temporaries': GIB, 'resident': 0.0}
    known = Memory(**(sizes | {'limit': 4.0 * GIB} | memory))
    return Analysis(builder.build(name), topology, known, Flops(1.0), None)


def test_the_introduction_says_what_is_planned(builder, topology):
    text = ' '.join(summary.introduction(builder, topology, source='a/b'))
    assert text.startswith('tiny: a/b, ')
    assert 'cpu:8: 8 chips, mesh data=1, fsdp=2, rollout=2, tensor=2.' in text
    assert '8 prompts of 30 tokens with 4 responses of 5' in text
    assert 'shapes alone' not in text


def test_a_plan_by_shapes_alone_says_so(builder):
    topology = topologies.parse('gpu:h100x8')
    text = ' '.join(summary.introduction(builder, topology, source=''))
    assert 'a policy from scratch' in text
    assert 'shapes alone' in text


def test_edges_are_called_estimates(builder):
    (line,) = summary.readings([], builder)
    assert line.startswith('Longest response and largest batch are estimates')


def test_a_decode_step_reads_its_weights_and_its_cache(builder, topology):
    analysis = analysed(builder, topology, 'decode')
    line = summary.readings([analysis], builder)[-1]
    prefix = builder.prefix(builder.config.train.num_prompts)
    parts = builder.decoding_weights(), prefix, builder.cache()
    size = shard_bytes(parts)
    # Eight chips, 32 sequences: a token is a quarter of what a chip reads.
    assert f'{size / 1e3:.3g} kB a chip' in line
    assert f'{size / 4 / 1e3:.3g} kB for each token' in line
    assert f'{1e3 * size / 1e11:.3g} ms, {32 * 1e11 / size:,.0f} tokens/s' in line


def test_a_loop_of_unknown_length_is_told(builder, topology):
    analysis = analysed(builder, topology, 'score')
    costs = Costs(1.0, 1.0, {}, unknown_loops=2)
    told = dataclasses.replace(analysis, costs=costs)
    lines = summary.readings([told], builder)
    assert 'score: 2 loops of unknown length, once.' in lines


def test_an_overflow_is_a_sentence_and_three_ways_out(builder, topology):
    held = shard_bytes(builder.build('decode').arguments)
    sizes = {'arguments': held, 'temporaries': 0.0, 'limit': 0.8 * held}
    over = analysed(builder, topology, 'decode', **sizes)
    both = [over, analysed(builder, topology, 'score')]
    edges = [fits.fit(each, builder) for each in both]
    lines = summary.overflows(both, edges, builder)
    assert lines[1].startswith('decode does not fit: it needs ')
    assert 'GiB that a program has on a chip' in lines[1]
    assert [line[:3] for line in lines[3:]] == ['1. ', '2. ', '3. ']


def test_a_way_out_says_what_it_saves_and_costs():
    way = Way({'mesh.fsdp': 4, 'mesh.data': 1}, 'time', 8, 1.5 * GIB, enough=True)
    words = '--config.mesh.fsdp=4 --config.mesh.data=1: at least 1.50 GiB less'
    assert summary._way(way, 8) == f'{words} (at the cost of time)'
    short = dataclasses.replace(way, enough=False)
    assert ', which alone is not enough (' in summary._way(short, 8)
    assert summary._way(way, 4).startswith('on 8 chips, --config.mesh.fsdp=4')


def test_nothing_is_said_of_what_fits(builder, topology):
    fitting = analysed(builder, topology, 'score')
    assert not summary.overflows([fitting], [fits.fit(fitting, builder)], builder)
