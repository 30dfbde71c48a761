"""The digest of a file is that of its bytes."""

import hashlib

from passk_jax.runs.digests import digest


def test_the_digest_is_the_sha256_of_the_content(tmp_path):
    (tmp_path / 'file').write_bytes(b'content\n\x00')
    assert digest(tmp_path / 'file') == hashlib.sha256(b'content\n\x00').hexdigest()
