package kubeconfig

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math"
	"net/url"
	"path"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

const answerTimeout = 30 * time.Second

// MinValidity is the shortest that can be requested of a server.
const MinValidity = 10 * time.Minute

// Find returns an error unless config is that of a system administrator, whose server
// knows tenant t.
func Find(ctx context.Context, config *rest.Config, t tenant.Name) error {
	if namesSpace(config.Host) {
		return notOfSystem(config.Host)
	}
	if t == tenant.System {
		return nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	found := client.Discovery().RESTClient().Get().AbsPath("/apis", v1alpha1.GroupVersion.String(), "tenants", t.String()).Do(ctx)
	switch err := found.Error(); {
	case apierrors.IsNotFound(err) && !isOfTenants(err):
		return notOfSystem(config.Host)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("tenant %q is not known to %s: create it first, or see which there are with \"kubectl get tenants\"", t, config.Host)
	case err != nil:
		return fmt.Errorf("looking for tenant %q: %w", t, err)
	default:
		return nil
	}
}

// namesSpace reports whether a server's URL is that of the root of a space, which may be
// behind a path of a proxy.
func namesSpace(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	parent, name := path.Split(path.Clean("/" + u.Path))
	root := path.Join("/", path.Base(parent), name)
	target, err := tenant.ParsePath(root, root)
	return err != nil || target.Scope != ""
}

// isOfTenants reports whether a server has said of a Tenant that it is not there. In a
// space, and at other servers, there is no such resource.
func isOfTenants(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "tenants"
}

func notOfSystem(server string) error {
	return fmt.Errorf("there are no tenants at %s, which is not the system space: it takes the kubeconfig of a system administrator, such as admin.kubeconfig of \"tenantry up\"", server)
}

// Request returns a kubeconfig for u with a client certificate that the server of config
// has issued. config is that of a system administrator, in whose name a request for the
// certificate is made in the tenant's space, approved and deleted. The key does not leave
// this process.
func Request(ctx context.Context, config *rest.Config, u User) ([]byte, error) {
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("reading the server's authority: %w", err)
	}
	space, err := spaceURL(config.Host, u.Tenant)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("creating a key: %w", err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	request, err := cert.MakeCSR(key, &pkix.Name{CommonName: u.Name, Organization: u.Groups}, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("creating a certificate request: %w", err)
	}
	config.Host = space
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	certPEM, err := issue(ctx, client, request, u.Validity)
	if err != nil {
		return nil, fmt.Errorf("requesting a certificate for %q of tenant %q: %w", u.Name, u.Tenant, err)
	}
	return write(&api.Cluster{Server: space, CertificateAuthorityData: config.CAData}, u.Tenant, u.Name, &api.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM})
}

// issue makes a request of a user's certificate, approves it and waits for the answer.
func issue(ctx context.Context, client kubernetes.Interface, request []byte, validity time.Duration) ([]byte, error) {
	requests := client.CertificatesV1().CertificateSigningRequests()
	made := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "kubeconfig-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    request,
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature},
		},
	}
	if validity > 0 {
		made.Spec.ExpirationSeconds = new(int32(min(validity/time.Second, math.MaxInt32)))
	}
	made, err := requests.Create(ctx, made, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = requests.Delete(context.WithoutCancel(ctx), made.Name, metav1.DeleteOptions{}) // or the server does, in an hour
	}()
	made.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Kubeconfig", Message: "by tenantry kubeconfig",
	}}
	if _, err := requests.UpdateApproval(ctx, made.Name, made, metav1.UpdateOptions{}); err != nil {
		return nil, err
	}
	return await(ctx, client, made, answerTimeout)
}

// await waits for the certificate.
func await(ctx context.Context, client kubernetes.Interface, request *certificatesv1.CertificateSigningRequest, timeout time.Duration) ([]byte, error) {
	waiting, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	certificate, err := csr.WaitForCertificate(waiting, client, request.Name, request.UID)
	if wait.Interrupted(err) && ctx.Err() == nil {
		return nil, errors.New("the server did not sign it: is --cluster-signing-cert-file set, and do its controllers run?")
	}
	return certificate, err
}
