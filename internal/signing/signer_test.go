package signing

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/pki"
)

// newSigner returns a signer with an authority of its own.
func newSigner(t *testing.T, csr *certificatesv1.CertificateSigningRequest) *Signer {
	t.Helper()
	keys, err := pki.Ensure(filepath.Join(t.TempDir(), "pki"))
	if err != nil {
		t.Fatal(err)
	}
	return &Signer{
		Config: Config{CertFile: keys.ClientCA.File, KeyFile: keys.ClientCA.KeyFile, Duration: 24 * time.Hour},
		Client: fake.NewClientset(csr),
	}
}

func ecKey(t *testing.T, curve elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t *testing.T, bits int) crypto.Signer {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// approved returns an approved request under its flattened name.
func approved(t *testing.T, name, signer string, key crypto.Signer, request x509.CertificateRequest) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &request, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: signer, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		},
		Status: certificatesv1.CertificateSigningRequestStatus{Conditions: []certificatesv1.CertificateSigningRequestCondition{
			{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue},
		}},
	}
}

// handled returns what became of a request: a certificate, why there is none, or
// neither.
func handled(t *testing.T, s *Signer, csr *certificatesv1.CertificateSigningRequest) (*x509.Certificate, string) {
	t.Helper()
	if err := s.Handle(t.Context(), csr.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	got, err := s.Client.CertificatesV1().CertificateSigningRequests().Get(context.Background(), csr.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range got.Status.Conditions {
		if c.Type == certificatesv1.CertificateFailed {
			return nil, c.Message
		}
	}
	if len(got.Status.Certificate) == 0 {
		return nil, ""
	}
	block, _ := pem.Decode(got.Status.Certificate)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, ""
}

func TestUsers(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	jane := pkix.Name{CommonName: "jane", Organization: []string{"devs", "ops"}}
	for name, tc := range map[string]struct {
		in      string // the flattened name, "acme|jane" by default
		key     crypto.Signer
		request x509.CertificateRequest
		change  func(*certificatesv1.CertificateSigningRequestSpec)
		want    string // of the subject; else refused with
		refused string
	}{
		"in a space":             {request: x509.CertificateRequest{Subject: jane}, want: "CN=jane,OU=ops+OU=devs,O=tenant:acme"},
		"in another":             {in: "b|jane", request: x509.CertificateRequest{Subject: jane}, want: "CN=jane,OU=ops+OU=devs,O=tenant:b"},
		"in the system space":    {in: "jane", request: x509.CertificateRequest{Subject: jane}, want: "CN=jane,OU=ops+OU=devs,O=tenant:system"},
		"with another's prefix":  {request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "b:jane"}}, want: "CN=b:jane,O=tenant:acme"},
		"an RSA key":             {key: rsaKey(t, 2048), request: x509.CertificateRequest{Subject: jane}, want: "CN=jane,OU=ops+OU=devs,O=tenant:acme"},
		"another tenant":         {request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", Organization: []string{"tenant:b"}}}, refused: "names a tenant"},
		"the system tenant":      {request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", Organization: []string{"x", "tenant:system"}}}, refused: "names a tenant"},
		"the own tenant":         {request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", Organization: []string{"tenant:acme"}}}, refused: "names a tenant"},
		"a group of Kubernetes":  {request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", Organization: []string{"system:masters"}}}, refused: "system:masters"},
		"a group of Keystone":    {request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", Organization: []string{"keystone:domain:d:r"}}}, refused: "groups of Keystone"},
		"a user of Keystone":     {request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "keystone:u"}}, refused: "users of Keystone"},
		"masters of the system":  {in: "jane", request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", Organization: []string{"system:masters"}}}, refused: "system:masters"},
		"a node of the system":   {in: "jane", request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n"}}, refused: "components of Kubernetes"},
		"an organizational unit": {request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", OrganizationalUnit: []string{"system:masters"}}}, refused: "nothing else"},
		"two names": {request: x509.CertificateRequest{Subject: pkix.Name{ExtraNames: []pkix.AttributeTypeAndValue{
			{Type: commonName, Value: "jane"}, {Type: commonName, Value: "root"}}}}, refused: "one common name"},
		"a UID": {request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", ExtraNames: []pkix.AttributeTypeAndValue{
			{Type: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}, Value: "1"}}}}, refused: "nothing else"},
		"no name":      {request: x509.CertificateRequest{Subject: pkix.Name{Organization: []string{"devs"}}}, refused: "one common name"},
		"a service":    {request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:serviceaccount:default:default"}}, refused: "components of Kubernetes"},
		"other names":  {request: x509.CertificateRequest{Subject: jane, DNSNames: []string{"kubernetes"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, refused: "extensions"},
		"an authority": {request: x509.CertificateRequest{Subject: jane, ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{0x30, 3, 1, 1, 0xff}}}}, refused: "extensions"},
		"a weak key":   {key: rsaKey(t, 1024), request: x509.CertificateRequest{Subject: jane}, refused: "2048 to 8192 bits"},
		"a weak curve": {key: ecKey(t, elliptic.P224()), request: x509.CertificateRequest{Subject: jane}, refused: "must be RSA"},
		"for servers": {request: x509.CertificateRequest{Subject: jane}, change: func(s *certificatesv1.CertificateSigningRequestSpec) {
			s.Usages = append(s.Usages, certificatesv1.UsageServerAuth)
		}, refused: `"server auth"`},
		"for nothing":          {request: x509.CertificateRequest{Subject: jane}, change: func(s *certificatesv1.CertificateSigningRequestSpec) { s.Usages = nil }, refused: "is missing"},
		"not its own key":      {request: x509.CertificateRequest{Subject: jane}, change: func(s *certificatesv1.CertificateSigningRequestSpec) { s.Request = broken(s.Request) }, refused: "own key"},
		"a weak key, unsigned": {key: rsaKey(t, 1024), request: x509.CertificateRequest{Subject: jane}, change: func(s *certificatesv1.CertificateSigningRequestSpec) { s.Request = broken(s.Request) }, refused: "2048 to 8192 bits"},
		"a node's, in a space": {request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}},
			change: func(s *certificatesv1.CertificateSigningRequestSpec) {
				s.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
			}, refused: "nodes belong to the platform"},
		"a node's server, in a space": {request: x509.CertificateRequest{Subject: jane},
			change: func(s *certificatesv1.CertificateSigningRequestSpec) {
				s.SignerName = certificatesv1.KubeletServingSignerName
			}, refused: "nodes belong to the platform"},
		"a signer that is none": {in: "jane", request: x509.CertificateRequest{Subject: jane}, change: func(s *certificatesv1.CertificateSigningRequestSpec) { s.SignerName = "kubernetes.io/legacy-unknown" }, refused: "nothing is issued"},
		"a node":                {in: "node", request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}}, change: asNode, want: "CN=system:node:n,O=system:nodes"},
		"somebody else as a node": {in: "node", request: x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", Organization: []string{"system:masters"}}}, change: func(s *certificatesv1.CertificateSigningRequestSpec) {
			s.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
		}, refused: "organization"},
		"a signer that is somebody else's": {request: x509.CertificateRequest{Subject: jane}, change: func(s *certificatesv1.CertificateSigningRequestSpec) { s.SignerName = "example.com/mine" }},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.in == "" {
				tc.in = "acme|jane"
			}
			if tc.key == nil {
				tc.key = key
			}
			csr := approved(t, tc.in, certificatesv1.KubeAPIServerClientSignerName, tc.key, tc.request)
			if tc.change != nil {
				tc.change(&csr.Spec)
			}
			certificate, refused := handled(t, newSigner(t, csr), csr)
			if tc.refused != "" || tc.want == "" {
				if certificate != nil || !strings.Contains(refused, tc.refused) || tc.refused == "" && refused != "" {
					t.Errorf("got %v, %q; want %q", certificate, refused, tc.refused)
				}
				return
			}
			if certificate == nil {
				t.Fatalf("refused: %s", refused)
			}
			if diff := cmp.Diff(tc.want, certificate.Subject.String()); diff != "" {
				t.Error(diff)
			}
			if certificate.IsCA || !certificate.BasicConstraintsValid || !slices.Equal(certificate.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) {
				t.Errorf("CA %v, usages %v", certificate.IsCA, certificate.ExtKeyUsage)
			}
			if now := time.Now(); certificate.NotBefore.Before(now.Add(-2*time.Second)) || certificate.NotAfter.After(now.Add(24*time.Hour)) {
				t.Errorf("valid from %s to %s", certificate.NotBefore, certificate.NotAfter)
			}
		})
	}
}

func asNode(s *certificatesv1.CertificateSigningRequestSpec) {
	s.SignerName, s.Usages = certificatesv1.KubeAPIServerClientKubeletSignerName, append(s.Usages, certificatesv1.UsageDigitalSignature)
}

// broken returns a request whose signature is another's.
func broken(request []byte) []byte {
	block, _ := pem.Decode(request)
	block.Bytes[len(block.Bytes)-1] ^= 1
	return pem.EncodeToMemory(block)
}

func TestValidity(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	for asked, want := range map[*int32]time.Duration{
		nil: 24 * time.Hour, ptr.To[int32](3600): time.Hour, ptr.To[int32](600): minDuration, ptr.To[int32](1): minDuration,
		ptr.To[int32](1 << 30): 24 * time.Hour,
	} {
		csr := approved(t, "acme|jane", certificatesv1.KubeAPIServerClientSignerName, key, x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane"}})
		csr.Spec.ExpirationSeconds = asked
		certificate, refused := handled(t, newSigner(t, csr), csr)
		if certificate == nil {
			t.Fatal(refused)
		}
		if got := certificate.NotAfter.Sub(certificate.NotBefore); got != want {
			t.Errorf("asked for %v: valid for %s, want %s", asked, got, want)
		}
	}
}

// TestWaits checks that what is not approved, or has failed, is left alone.
func TestWaits(t *testing.T) {
	for name, conditions := range map[string][]certificatesv1.RequestConditionType{
		"pending": nil, "denied": {certificatesv1.CertificateDenied}, "failed": {certificatesv1.CertificateApproved, certificatesv1.CertificateFailed},
	} {
		csr := approved(t, "acme|jane", certificatesv1.KubeAPIServerClientSignerName, ecKey(t, elliptic.P256()), x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane"}})
		csr.Status.Conditions = nil
		for _, c := range conditions {
			csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: c, Status: corev1.ConditionTrue})
		}
		if certificate, refused := handled(t, newSigner(t, csr), csr); certificate != nil || refused != "" {
			t.Errorf("%s: got %v, %q", name, certificate, refused)
		}
	}
}

func TestValidateFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		config Config
		valid  bool
	}{
		"none":      {Config{Duration: time.Hour}, true},
		"no key":    {Config{CertFile: "c", Duration: time.Hour}, false},
		"no cert":   {Config{KeyFile: "k", Duration: time.Hour}, false},
		"too short": {Config{Duration: time.Minute}, false},
	} {
		if errs := tc.config.Validate(); (len(errs) == 0) != tc.valid {
			t.Errorf("%s: %v", name, errs)
		}
	}
}
