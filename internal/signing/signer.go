package signing

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	certificatesapi "k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/kubernetes/pkg/controller/certificates"
	"k8s.io/kubernetes/pkg/controller/certificates/authority"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Config is the signing authority and its limits.
type Config struct {
	// CertFile and KeyFile are the authority, as PEM. They are read at each signature,
	// so that they can be replaced.
	CertFile, KeyFile string
	// Duration is the longest validity of a certificate, and the default of requests
	// that name none.
	Duration time.Duration
}

// Validate reports what is wrong with the flags. The server must accept what the authority
// signs: it must be in one of the trusted bundles, those of --client-ca-file and
// --system-client-ca-file. Empty names of files are ignored.
func (c Config) Validate(trusted ...string) []error {
	var errs []error
	if (c.CertFile == "") != (c.KeyFile == "") {
		errs = append(errs, errors.New("--cluster-signing-cert-file and --cluster-signing-key-file need each other"))
	} else if c.CertFile != "" {
		if err := c.validateAuthority(trusted); err != nil {
			errs = append(errs, err)
		}
	}
	if c.Duration < minDuration {
		errs = append(errs, fmt.Errorf("--cluster-signing-duration is %s, and must be at least %s", c.Duration, minDuration))
	}
	return errs
}

func (c Config) validateAuthority(trusted []string) error {
	ca, err := c.authority()
	if err != nil {
		return fmt.Errorf("--cluster-signing-cert-file %s, --cluster-signing-key-file %s: %w", c.CertFile, c.KeyFile, err)
	}
	for _, file := range trusted {
		if file == "" {
			continue
		}
		bundle, err := cert.CertsFromFile(file)
		if err != nil {
			return fmt.Errorf("--cluster-signing-cert-file %s: reading those who are trusted in %s: %w", c.CertFile, file, err)
		}
		for _, one := range bundle { // a renewed certificate of the same authority is equal
			if bytes.Equal(one.RawSubject, ca.Certificate.RawSubject) && bytes.Equal(one.RawSubjectPublicKeyInfo, ca.Certificate.RawSubjectPublicKeyInfo) {
				return nil
			}
		}
	}
	return fmt.Errorf("--cluster-signing-cert-file %s: nobody would trust what it signs: it must be in --client-ca-file or --system-client-ca-file", c.CertFile)
}

const (
	// minDuration is the shortest validity, upstream's: the API refuses requests for less.
	minDuration = 10 * time.Minute
	// platformSigners is the prefix of Kubernetes' signers, which this server serves. Other
	// signers are served by others.
	platformSigners = "kubernetes.io/"
	// reasonRefused is that of upstream's signers.
	reasonRefused = "SignerValidationFailure"
)

// Signer handles the requests of the flattened view, for upstream's controller.
type Signer struct {
	Config
	Client kubernetes.Interface
}

// Handle issues a certificate for an approved request to a signer of Kubernetes, or sets
// a condition with the reason why there will be none.
func (s *Signer) Handle(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	if !strings.HasPrefix(csr.Spec.SignerName, platformSigners) || !certificates.IsCertificateRequestApproved(csr) ||
		certificates.HasTrueCondition(csr, certificatesv1.CertificateFailed) {
		return nil
	}
	n, name := tenant.Flat(csr.Name).Split()
	certificate, err := s.issue(n, csr)
	var refused refusal
	switch {
	case errors.As(err, &refused):
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: reasonRefused, Message: refused.Error(),
			LastUpdateTime: metav1.Now(),
		})
	case err != nil:
		return fmt.Errorf("signing request %q of tenant %q: %w", name, n, err)
	default:
		csr.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	}
	if _, err = s.Client.CertificatesV1().CertificateSigningRequests().UpdateStatus(ctx, csr, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("answering request %q of tenant %q: %w", name, n, err)
	}
	return nil
}

// refusal is a final error of a request.
type refusal struct{ error }

// issue returns the certificate for a request in the space of n.
func (s *Signer) issue(n tenant.Name, csr *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	request, err := certificatesapi.ParseCSR(csr.Spec.Request)
	if err != nil {
		return nil, refusal{err}
	}
	// The time to verify the signature grows with the square of the key's length.
	if err := checkKey(request.PublicKey); err != nil {
		return nil, refusal{err}
	}
	if err := request.CheckSignature(); err != nil {
		return nil, refusal{fmt.Errorf("the request is not signed with its own key: %w", err)}
	}
	switch {
	case csr.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName:
		return s.user(n, csr, request)
	case n == tenant.System && csr.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName:
		return s.kubelet(csr, request, certificatesapi.ValidateKubeletClientCSR)
	case n == tenant.System && csr.Spec.SignerName == certificatesv1.KubeletServingSignerName:
		return s.kubelet(csr, request, certificatesapi.ValidateKubeletServingCSR)
	case n != tenant.System:
		return nil, refusal{fmt.Errorf("in a space, of the signers of Kubernetes there is %s alone; nodes belong to the platform", certificatesv1.KubeAPIServerClientSignerName)}
	default:
		return nil, refusal{fmt.Errorf("nothing is issued for the signer %s", csr.Spec.SignerName)}
	}
}

// user returns the certificate of a user of n. It is valid from now on and not earlier:
// there may have been an earlier tenant of this name.
func (s *Signer) user(n tenant.Name, csr *certificatesv1.CertificateSigningRequest, request *x509.CertificateRequest) ([]byte, error) {
	subject, err := subjectIn(n, request)
	if err == nil {
		err = checkUsages(csr.Spec.Usages)
	}
	if err != nil {
		return nil, refusal{err}
	}
	ca, err := s.authority()
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: subject,
		NotBefore: now, NotAfter: now.Add(s.validity(csr)),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	if template.NotAfter.After(ca.Certificate.NotAfter) {
		template.NotAfter = ca.Certificate.NotAfter
	}
	if !now.Before(template.NotAfter) {
		return nil, fmt.Errorf("the authority in %s has expired", s.CertFile)
	}
	return x509.CreateCertificate(rand.Reader, template, ca.Certificate, request.PublicKey, ca.PrivateKey)
}

// kubelet returns a certificate as upstream's signer does.
func (s *Signer) kubelet(csr *certificatesv1.CertificateSigningRequest, request *x509.CertificateRequest,
	validate func(*x509.CertificateRequest, sets.String) error) ([]byte, error) { //nolint:staticcheck // upstream's
	usages := sets.NewString()
	for _, usage := range csr.Spec.Usages {
		usages.Insert(string(usage))
	}
	if err := validate(request, usages); err != nil {
		return nil, refusal{err}
	}
	ca, err := s.authority()
	if err != nil {
		return nil, err
	}
	return ca.Sign(request.Raw, authority.PermissiveSigningPolicy{TTL: s.validity(csr), Usages: csr.Spec.Usages})
}

func (s *Signer) validity(csr *certificatesv1.CertificateSigningRequest) time.Duration {
	if csr.Spec.ExpirationSeconds == nil {
		return s.Duration
	}
	return min(s.Duration, max(minDuration, time.Duration(*csr.Spec.ExpirationSeconds)*time.Second))
}

func (c Config) authority() (*authority.CertificateAuthority, error) {
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the signing authority: %w", err)
	}
	certificate, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("reading the signing authority: %w", err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !certificate.IsCA {
		return nil, fmt.Errorf("%s and %s are not the certificate and the key of an authority", c.CertFile, c.KeyFile)
	}
	return &authority.CertificateAuthority{Certificate: certificate, PrivateKey: key}, nil
}
