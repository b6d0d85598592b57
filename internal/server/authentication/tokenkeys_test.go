package authentication

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/go-jose/go-jose.v2/jwt"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/until"
)

// keyFiles are the files of keys of a server.
type keyFiles struct{ dir string }

func newKeyFiles(t *testing.T) keyFiles { return keyFiles{t.TempDir()} }

func (f keyFiles) key() string    { return filepath.Join(f.dir, "service-account.key") }
func (f keyFiles) public() string { return filepath.Join(f.dir, "service-account.pub") }

func (f keyFiles) write(t *testing.T, path string, content ...[]byte) {
	t.Helper()
	all := ""
	for _, c := range content {
		all += string(c)
	}
	if err := os.WriteFile(path, []byte(all), 0o600); err != nil {
		t.Fatal(err)
	}
}

// newPair returns a private key and its public one, in PEM.
func newPair(t *testing.T) (private, public []byte) {
	t.Helper()
	private, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(private)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(parsed.(crypto.Signer).Public())
	if err != nil {
		t.Fatal(err)
	}
	return private, pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: der})
}

func openTokenKeys(t *testing.T, f keyFiles) *TokenKeys {
	t.Helper()
	keys, err := OpenTokenKeys(f.key(), []string{f.key(), f.public()})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// signedBy returns a token in a space.
func signedBy(t *testing.T, keys *TokenKeys) string {
	t.Helper()
	token, err := NewTokenGenerator(systemTokensOnly{}, systemIssuer, keys).GenerateToken(tenant.WithSpace(t.Context(), "a"), &jwt.Claims{Subject: "s"}, map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// verifies reports whether a server verifies a token by its keys.
func verifies(t *testing.T, keys *TokenKeys, token string) bool {
	t.Helper()
	parsed, err := jwt.ParseSigned(token)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys.GetPublicKeys(t.Context(), parsed.Headers[0].KeyID) {
		if parsed.Claims(key.PublicKey, &jwt.Claims{}) == nil {
			return true
		}
	}
	return false
}

type told chan struct{}

func (t told) Enqueue() {
	select {
	case t <- struct{}{}:
	default:
	}
}

// TestTokenKeysRotate follows a rotation while the server runs: the next key verifies, then it
// signs, and then the one before is gone.
func TestTokenKeysRotate(t *testing.T) {
	files := newKeyFiles(t)
	first, firstPublic := newPair(t)
	second, secondPublic := newPair(t)
	files.write(t, files.key(), first)
	files.write(t, files.public(), firstPublic)
	keys := openTokenKeys(t, files)
	listener := make(told, 1)
	keys.AddListener(listener)
	go keys.Run(t.Context())
	before := signedBy(t, keys)

	files.write(t, files.public(), firstPublic, secondPublic)
	until.True(t, "the next key verifies", func() bool { return len(keys.GetPublicKeys(t.Context(), "")) == 2 })
	<-listener
	files.write(t, files.key(), second)
	var after string
	until.True(t, "the next key signs", func() bool {
		after = signedBy(t, keys)
		if !verifies(t, keys, after) || !verifies(t, keys, before) {
			t.Fatal("a token is refused during the rotation")
		}
		return kidOf(t, after) == keyIDOf(t, second)
	})
	legacy := NewLegacyTokens(keys)
	if !legacy.IsKnown([]byte(before)) {
		t.Error("a token that is not of a secret would be replaced")
	}

	files.write(t, files.public(), secondPublic)
	until.True(t, "the key before is gone", func() bool { return !verifies(t, keys, before) })
	if !verifies(t, keys, after) {
		t.Error("the new key does not verify")
	}
}

func kidOf(t *testing.T, token string) string {
	t.Helper()
	parsed, err := jwt.ParseSigned(token)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Headers[0].KeyID
}

func keyIDOf(t *testing.T, private []byte) string {
	t.Helper()
	parsed, err := keyutil.ParsePrivateKeyPEM(private)
	if err != nil {
		t.Fatal(err)
	}
	id, err := keyID(parsed)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestTokenKeysStay checks that what is wrong in a file leaves the keys in force, and that nothing
// is signed that this server would refuse.
func TestTokenKeysStay(t *testing.T) {
	first, firstPublic := newPair(t)
	other, _ := newPair(t)
	for name, spoil := range map[string]func(t *testing.T, f keyFiles){
		"an empty key":                 func(t *testing.T, f keyFiles) { f.write(t, f.key()) },
		"a key that is none":           func(t *testing.T, f keyFiles) { f.write(t, f.key(), []byte("spoilt\n")) },
		"a key by which none verifies": func(t *testing.T, f keyFiles) { f.write(t, f.key(), other) },
	} {
		t.Run(name, func(t *testing.T) {
			files := newKeyFiles(t)
			files.write(t, files.key(), first)
			files.write(t, files.public(), firstPublic)
			keys, err := OpenTokenKeys(files.key(), []string{files.public()})
			if err != nil {
				t.Fatal(err)
			}
			reported := make(chan error, 1)
			keys.reported = func(err error) { reported <- err }
			go keys.Run(t.Context())
			spoil(t, files)
			if err := <-reported; err == nil {
				t.Error("it is not reported")
			}
			if kid := kidOf(t, signedBy(t, keys)); kid != keyIDOf(t, first) {
				t.Error("another key signs")
			}
		})
	}
}

func TestOpenTokenKeysRefuses(t *testing.T) {
	first, _ := newPair(t)
	_, otherPublic := newPair(t)
	for name, tc := range map[string]struct {
		key, public []byte
		want        string
	}{
		"no private key":        {otherPublic, otherPublic, "--service-account-signing-key-file"},
		"no public key":         {first, []byte("none"), "--service-account-key-file"},
		"a key nobody verifies": {first, otherPublic, "in no --service-account-key-file"},
	} {
		files := newKeyFiles(t)
		files.write(t, files.key(), tc.key)
		files.write(t, files.public(), tc.public)
		if _, err := OpenTokenKeys(files.key(), []string{files.public()}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got error %v, want %q", name, err, tc.want)
		}
	}
}

// TestOldTokensOfSecrets checks which tokens of secrets are replaced.
func TestOldTokensOfSecrets(t *testing.T) {
	files := newKeyFiles(t)
	first, firstPublic := newPair(t)
	files.write(t, files.key(), first)
	files.write(t, files.public(), firstPublic)
	current := NewLegacyTokens(openTokenKeys(t, files))
	claims, private := serviceaccount.LegacyClaims(account("a|ns"), secretOf("secret"))
	ofCurrent, err := current.GenerateToken(t.Context(), claims, private)
	if err != nil {
		t.Fatal(err)
	}
	others := newKeyFiles(t)
	second, secondPublic := newPair(t)
	others.write(t, others.key(), second)
	others.write(t, others.public(), secondPublic)
	ofOther, err := NewLegacyTokens(openTokenKeys(t, others)).GenerateToken(t.Context(), claims, private)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		token string
		want  bool
	}{
		"of a key that verifies": {ofCurrent, true},
		"of a key that is gone":  {ofOther, false},
		"none yet":               {"", true},
		"somebody's own":         {"x.y.z", true},
	} {
		if got := current.IsKnown([]byte(tc.token)); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
