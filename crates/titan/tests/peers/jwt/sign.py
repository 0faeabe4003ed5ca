"""Makes keys of every type with `cryptography`, and tokens with PyJWT.

Usage: sign.py FOLDER

Writes ALGORITHM.key for each algorithm (a PEM file with the public key, or the secret), and keys.json, a key set of
all public keys. Prints a JSON object: for each algorithm a token that is good, and one that another key has signed.
"""

import json
import pathlib
import secrets
import sys
import time

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import get_default_algorithms

SECRETS = {"HS256": 32, "HS384": 48, "HS512": 64}
RSA = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]
CURVES = {
    "ES256": ec.SECP256R1,
    "ES384": ec.SECP384R1,
    "ES512": ec.SECP521R1,
    "ES256K": ec.SECP256K1,
}


def new_key(algorithm):
    if algorithm in SECRETS:
        return secrets.token_hex(SECRETS[algorithm] // 2)
    if algorithm in CURVES:
        return full_key(CURVES[algorithm]())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def full_key(curve):
    """A key whose coordinates begin with no zero byte: this PyJWT leaves those out of key sets, against RFC 7518
    section 6.2.1.2."""
    while True:
        key = ec.generate_private_key(curve)
        numbers = key.public_key().public_numbers()
        if min(numbers.x, numbers.y).bit_length() > (curve.key_size - 1) // 8 * 8:
            return key


def token(algorithm, key):
    claims = {"iss": algorithm, "aud": ["there", "here"], "sub": "ann", "exp": int(time.time()) + 3600}
    return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": algorithm})


def main(folder):
    tokens, public = {}, []
    for algorithm in [*SECRETS, *RSA, *CURVES, "EdDSA"]:
        key = new_key(algorithm)
        tokens[algorithm] = [token(algorithm, key), token(algorithm, new_key(algorithm))]
        if algorithm in SECRETS:
            text = key.encode()
        else:
            text = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
            jwk = json.loads(get_default_algorithms()[algorithm].to_jwk(key.public_key()))
            public.append({**jwk, "kid": algorithm, "alg": algorithm, "use": "sig", "key_ops": ["verify"]})
        (folder / f"{algorithm}.key").write_bytes(text)
    (folder / "keys.json").write_text(json.dumps({"keys": public}))
    print(json.dumps(tokens))


main(pathlib.Path(sys.argv[1]))
