import './styles/tokens.css'
import './styles/base.css'
import './styles/shell.css'
import './styles/talk.css'
import './styles/pages.css'
import { CSPProvider } from '@base-ui/react/csp-provider'
import { Tooltip } from '@base-ui/react/tooltip'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { Router } from 'wouter'
import { App } from './app.tsx'
import { basePath } from './location.ts'
import { Boundary } from './ui/boundary.tsx'

// Send requests even if the browser reports that it is offline, because a server on this machine is reachable without internet.
const networkMode = 'always'
const queries = new QueryClient({
  defaultOptions: { queries: { retry: 1, refetchOnWindowFocus: false, networkMode }, mutations: { networkMode } },
})

const root = document.getElementById('root')
if (root === null) throw new Error('index.html has no #root element.')
createRoot(root).render(
  <StrictMode>
    <CSPProvider disableStyleElements>
      <QueryClientProvider client={queries}>
        <Tooltip.Provider delay={400}>
          <Boundary what="console">
            <Router base={basePath}>
              <App />
            </Router>
          </Boundary>
        </Tooltip.Provider>
      </QueryClientProvider>
    </CSPProvider>
  </StrictMode>,
)
