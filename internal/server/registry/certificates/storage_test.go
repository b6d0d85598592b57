package certificates

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/certificates"
	registry "k8s.io/kubernetes/pkg/registry/certificates/certificates"
)

// request returns one, as PEM, that somebody claims to have signed with a key.
func request(t *testing.T, key any) []byte {
	t.Helper()
	public, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	type info struct {
		Version    int
		Subject    asn1.RawValue
		Key        asn1.RawValue
		Attributes []asn1.RawValue `asn1:"tag:0"`
	}
	sha256WithRSA := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}, Parameters: asn1.NullRawValue}
	der, err := asn1.Marshal(struct {
		Info      info
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{
		info{Subject: asn1.RawValue{FullBytes: []byte{0x30, 0}}, Key: asn1.RawValue{FullBytes: public}},
		sha256WithRSA, asn1.BitString{Bytes: []byte{1}, BitLength: 8},
	})
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func rsaKey(bits, exponent int) *rsa.PublicKey {
	modulus := new(big.Int).Lsh(big.NewInt(1), uint(bits-1))
	return &rsa.PublicKey{N: modulus.SetBit(modulus, 0, 1), E: exponent}
}

func TestCheckRequest(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		request []byte
		want    string // in the only error, none if it is empty
	}{
		"ECDSA":           {request: request(t, &ec.PublicKey)},
		"RSA":             {request: request(t, rsaKey(4096, 65537))},
		"the longest key": {request: request(t, rsaKey(8192, 65537))},
		"a longer key":    {request: request(t, rsaKey(8193, 65537)), want: "its RSA key has 8193 bits; make one of at most 8192, or an ECDSA key"},
		"a long key":      {request: request(t, rsaKey(200_000, 65537)), want: "its RSA key has 200000 bits"},
		"usual exponent":  {request: request(t, rsaKey(2048, 65537))},
		"larger exponent": {request: request(t, rsaKey(2048, 65539)), want: "the public exponent of its RSA key is 65539"},
		"a long request":  {request: request(t, rsaKey(1_000_000, 65537)), want: "Too long: may not be more than 65536 bytes"},
		"long nonsense":   {request: slices.Repeat([]byte("x"), maxRequest+1), want: "Too long"},
		"nonsense":        {request: []byte("x")}, // which upstream refuses
		"nothing":         {},
	} {
		t.Run(name, func(t *testing.T) {
			errs := checkRequest(tc.request)
			if tc.want == "" {
				if len(errs) > 0 {
					t.Error(errs)
				}
				return
			}
			if len(errs) != 1 || errs[0].Field != "spec.request" || !strings.Contains(errs[0].Error(), tc.want) {
				t.Errorf("got %v, want %q", errs, tc.want)
			}
			if text := errs.ToAggregate().Error(); len(text) > 200 {
				t.Errorf("the message has %d bytes", len(text))
			}
		})
	}
}

// verifier is a strategy that notes whether it would have verified a signature.
type verifier struct {
	rest.RESTCreateUpdateStrategy
	verified *bool
}

func (v verifier) Validate(context.Context, runtime.Object) field.ErrorList {
	*v.verified = true
	return nil
}

func (v verifier) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	*v.verified = true
	return nil
}

func TestLongKeysAreNotVerified(t *testing.T) {
	object := func(bits int, change func(*certificates.CertificateSigningRequest)) *certificates.CertificateSigningRequest {
		o := &certificates.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "jane", ResourceVersion: "1"}}
		o.Spec.Request = request(t, rsaKey(bits, 65537))
		if change != nil {
			change(o)
		}
		return o
	}
	going := func(o *certificates.CertificateSigningRequest) {
		o.DeletionTimestamp, o.Finalizers = &metav1.Time{}, []string{"example.com/x"}
	}
	gone := func(o *certificates.CertificateSigningRequest) { o.DeletionTimestamp = &metav1.Time{} }
	misnamed := func(o *certificates.CertificateSigningRequest) {
		gone(o)
		o.Finalizers = []string{"example.com/x", "no such name/"}
	}
	for name, tc := range map[string]struct {
		old, obj          *certificates.CertificateSigningRequest
		verified, refused bool
	}{
		"usual":                        {obj: object(4096, nil), verified: true},
		"long":                         {obj: object(9000, nil), refused: true},
		"usual, updated":               {old: object(4096, nil), obj: object(4096, nil), verified: true},
		"long, updated":                {old: object(9000, nil), obj: object(9000, nil), refused: true},
		"usual, being deleted":         {old: object(4096, going), obj: object(4096, gone), verified: true},
		"long, being deleted":          {old: object(9000, going), obj: object(9000, gone)},
		"long, wrong in its last hour": {old: object(9000, going), obj: object(9000, misnamed), refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			verified := false
			upstream := verifier{registry.Strategy, &verified}
			var errs field.ErrorList
			if tc.old == nil {
				errs = creation{upstream}.Validate(t.Context(), tc.obj)
			} else {
				errs = change{upstream}.ValidateUpdate(t.Context(), tc.obj, tc.old)
			}
			if verified != tc.verified || (len(errs) > 0) != tc.refused {
				t.Errorf("verified %v, refused with %v", verified, errs)
			}
		})
	}
}

func TestSubresources(t *testing.T) {
	for bits, refused := range map[int]bool{4096: false, 9000: true} {
		stored := &certificates.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "jane"}}
		stored.Spec.Request = request(t, rsaKey(bits, 65537))
		sent := &certificates.CertificateSigningRequest{} // whose spec does not count
		_, err := bounded(rest.DefaultUpdatedObjectInfo(sent)).UpdatedObject(t.Context(), stored)
		if (err != nil) != refused {
			t.Errorf("a key of %d bits: %v", bits, err)
		}
	}
}
