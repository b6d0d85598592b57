package kubecontrollers

import (
	"context"
	"time"

	certificateslisters "k8s.io/client-go/listers/certificates/v1"
	"k8s.io/kubernetes/pkg/controller/certificates"
	"k8s.io/kubernetes/pkg/controller/certificates/cleaner"
	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/internal/signing"
)

// newSigning issues the certificates of approved requests, if there is an authority.
func newSigning(ctx context.Context, e *environment) (runner, error) {
	if e.server.Signing().CertFile == "" {
		return idle, nil
	}
	signer := &signing.Signer{Config: e.server.Signing(), Client: e.client}
	requests := offeredIfInTurn(e.debts, e.informers.Certificates().V1().CertificateSigningRequests().Informer(), certificateslisters.NewCertificateSigningRequestLister)
	return certificates.NewCertificateController(ctx, "csrsigning", e.client, requests, signer.Handle), nil
}

// newRequestCleaner deletes requests that are over.
func newRequestCleaner(_ context.Context, e *environment) (runner, error) {
	return cleaner.NewCSRCleanerController(e.client.CertificatesV1().CertificateSigningRequests(),
		e.informers.Certificates().V1().CertificateSigningRequests()), nil
}

// Upstream's controller manager has the same.
const (
	podRequestsLast    = 15 * time.Minute
	podRequestsChecked = 5 * time.Minute
)

// newPodRequestCleaner deletes the requests of pods that nobody has answered in time.
func newPodRequestCleaner(_ context.Context, e *environment) (runner, error) {
	return cleaner.NewPCRCleanerController(e.client, e.informers.Certificates().V1().PodCertificateRequests(),
		clock.RealClock{}, podRequestsLast, podRequestsChecked), nil
}
