//go:build node

package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// metricsService has the node's API server ask metrics-server, which is a process beside it.
const metricsService = `
apiVersion: v1
kind: Service
metadata: {namespace: kube-system, name: metrics-server}
spec: {type: ExternalName, externalName: 10.244.0.1}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  service: {namespace: kube-system, name: metrics-server, port: 4443}
  insecureSkipTLSVerify: true
  groupPriorityMinimum: 100
  versionPriority: 100
`

// startMetricsServer runs it until the end of the spec.
func startMetricsServer() {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	kubeconfig := os.Getenv("KUBECONFIG")
	process := exec.Command("metrics-server", "--kubeconfig", kubeconfig, "--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig,
		"--secure-port=4443", "--cert-dir", dir, "--kubelet-insecure-tls", "--kubelet-preferred-address-types=InternalIP", "--metric-resolution=15s")
	process.Stdout, process.Stderr = GinkgoWriter, GinkgoWriter
	Expect(process.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = process.Process.Signal(syscall.SIGTERM)
		_ = process.Wait()
	})
	manifest := filepath.Join(dir, "metrics.yaml")
	Expect(os.WriteFile(manifest, []byte(metricsService), 0o600)).To(Succeed())
	must("apply", "-f", manifest)
	DeferCleanup(func() { must("delete", "-f", manifest) }) // namespaces do not end while discovery fails
}

const workingDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: working}
spec:
  selector: {matchLabels: {app: working}}
  template:
    metadata: {labels: {app: working}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: c
        image: localhost/pause:1
        imagePullPolicy: IfNotPresent
        args: [-work]
        resources: {requests: {cpu: 20m}, limits: {cpu: 100m}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: working}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: working}
  maxReplicas: 2
  metrics:
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}
`
