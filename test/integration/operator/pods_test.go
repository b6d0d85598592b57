package operator

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/test/harness"
	"github.com/tenantry/tenantry/test/harness/sessions"
)

const loopback = "127.0.0.1"

// pod is a process that is run as the container of a pod would be: with its arguments and the
// files of its volumes, but at addresses of this machine.
type pod struct {
	*gexec.Session
	port string
	root string
	spec corev1.PodSpec
}

// kubelet runs pods until it ends them all.
type kubelet struct {
	// binary is what is in the image, and root a directory for volumes.
	binary, root string
	pods         []*pod
}

// run starts the next pod of a Deployment.
func (k *kubelet) run(ctx context.Context, deployment string, environment ...string) *pod {
	GinkgoHelper()
	return k.start(ctx, deployment, get(ctx, &appsv1.Deployment{}, deployment).Spec.Template.Spec, environment...)
}

// start starts a pod that is of a workload.
func (k *kubelet) start(ctx context.Context, of string, spec corev1.PodSpec, environment ...string) *pod {
	GinkgoHelper()
	port, err := harness.FreePort()
	Expect(err).NotTo(HaveOccurred())
	p := &pod{port: strconv.Itoa(port), spec: spec}
	p.root, err = os.MkdirTemp(k.root, of)
	Expect(err).NotTo(HaveOccurred())
	p.mount(ctx)
	local := strings.NewReplacer("=/etc/tenantry/", "="+p.root+"/etc/tenantry/", "=/var/lib/", "="+p.root+"/var/lib/", "--bind-address=0.0.0.0", "--bind-address="+loopback,
		"--secure-port=6443", "--secure-port="+p.port, "--health-probe-bind-address=:8081", "--health-probe-bind-address="+loopback+":"+p.port)
	command := exec.Command(k.binary)
	for _, arg := range p.spec.Containers[0].Args {
		command.Args = append(command.Args, local.Replace(arg))
	}
	command.Env = append(os.Environ(), environment...)
	p.Session, err = gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	k.pods = append(k.pods, p)
	return p
}

// end ends all pods.
func (k *kubelet) end() {
	GinkgoHelper()
	for _, p := range k.pods {
		sessions.Kill(p.Session)
	}
}

// mount writes the files of the volumes, as a kubelet does at the start and when Secrets
// change.
func (p *pod) mount(ctx context.Context) {
	GinkgoHelper()
	for _, mount := range p.spec.Containers[0].VolumeMounts {
		dir := filepath.Join(p.root, mount.MountPath)
		Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
		for _, volume := range p.spec.Volumes {
			if volume.Name != mount.Name {
				continue
			}
			for _, source := range volume.Projected.Sources {
				data := secret(ctx, source.Secret.Name).Data
				for _, item := range source.Secret.Items {
					Expect(data).To(HaveKey(item.Key))
					file := filepath.Join(dir, item.Path)
					Expect(os.MkdirAll(filepath.Dir(file), 0o700)).To(Succeed())
					Expect(os.WriteFile(file, data[item.Key], 0o600)).To(Succeed())
				}
			}
		}
	}
}

// service is what a Service of the host is: it passes connections on to pods in turn. Clients
// use it as a proxy, so that they know the servers by the name of the Service.
type service struct {
	host string
	url  *url.URL
	to   harness.Service
}

func startService(host string) *service {
	GinkgoHelper()
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	Expect(err).NotTo(HaveOccurred())
	s := &service{host: host, url: &url.URL{Scheme: "http", Host: listener.Addr().String()}}
	server := &http.Server{Handler: s}
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Close)
	return s
}

// set says which pods new connections go to.
func (s *service) set(pods ...*pod) {
	var addresses []string
	for _, p := range pods {
		addresses = append(addresses, net.JoinHostPort(loopback, p.port))
	}
	s.to.Set(addresses...)
}

// config returns a config that reaches the servers by way of the Service.
func (s *service) config(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Proxy, config.QPS = http.ProxyURL(s.url), -1
	return config
}

// ServeHTTP implements http.Handler.
func (s *service) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodConnect || req.Host != s.host {
		http.Error(w, "there is no such Service", http.StatusForbidden)
		return
	}
	there, err := s.to.Dial()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	here, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		_ = there.Close()
		return
	}
	_, _ = buffered.WriteString("HTTP/1.1 200 OK\r\n\r\n")
	_ = buffered.Flush()
	harness.Join(here, there)
}
