"""Files for an encrypted SuperLink on 127.0.0.1: an authority, what it signed, and keys of sites."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID


def encrypted(folder: Path) -> tuple[str, ...]:
    """The options of a SuperLink whose certificate is signed by `ca.pem` of the folder."""
    authority, server = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    root = _certificate("authority", authority, "authority", authority, x509.BasicConstraints(True, None))
    here = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    signed = _certificate("superlink", server, "authority", authority, here)
    (folder / "ca.pem").write_bytes(root.public_bytes(Encoding.PEM))
    (folder / "server.pem").write_bytes(signed.public_bytes(Encoding.PEM))
    (folder / "server.key").write_bytes(server.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    files = {"certfile": "server.pem", "keyfile": "server.key", "ca-certfile": "ca.pem"}
    return tuple(word for what, file in files.items() for word in (f"--ssl-{what}", str(folder / file)))


def _certificate(
    name: str, key: ec.EllipticCurvePrivateKey, by: str, signer: ec.EllipticCurvePrivateKey, says: x509.ExtensionType
) -> x509.Certificate:
    """As `openssl req` would make it."""
    subject, issuer = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, who)]) for who in (name, by))
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
    return made.add_extension(says, critical=False).sign(signer, hashes.SHA384())


def site_key(folder: Path, name: str) -> Path:
    """The private key of a site; the public one lies beside it. As `ssh-keygen -t ecdsa -b 384` would make them."""
    key = ec.generate_private_key(ec.SECP384R1())
    private, public = folder / f"{name}.key", folder / f"{name}.key.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    return private
